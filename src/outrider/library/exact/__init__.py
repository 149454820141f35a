"""Every record that a Boolean tree matches, and no other, out of one version of the library."""
