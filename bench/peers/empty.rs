// Cargo wants a target; there is nothing to build here.
