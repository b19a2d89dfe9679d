"""Small widgets that know nothing of checkpoints: plots, banners, lists of facts."""
