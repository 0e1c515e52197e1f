"""Development tools of the project; nothing in telesrv imports them."""
