"""The row that whoever arranges an owner's list of chats locks first.

Concurrency: changes of pins, folders and filters are planned before that lock (`plans`). Rows are locked in
this order: contacts, contact_blocks, dialog_settings, dialogs, dialog_filters, dialog_drafts, then the log.
One that goes the other way is no harm: a dialog that is removed notes its other side in contacts, and who
locks those locks no dialog.

*Spec: Folders*
"""

from __future__ import annotations

from typing import Final

# Locks the owner's settings, made if need be.
SQL_LOCK_SETTINGS: Final = """
INSERT INTO dialog_settings AS s (owner_user_id) VALUES ($1)
ON CONFLICT (owner_user_id) DO UPDATE SET filter_tags = s.filter_tags
RETURNING filter_order, filter_tags
"""
# Reads the owner's settings; there may be none yet.
SQL_SETTINGS: Final = """
SELECT filter_order, filter_tags, top_peers_off, top_peers_after FROM dialog_settings
WHERE owner_user_id = $1
"""
