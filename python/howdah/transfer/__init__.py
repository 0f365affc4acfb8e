"""Moving data: endpoints, the far end over ssh, carrying out a plan, progress."""
