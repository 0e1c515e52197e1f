"""Records and rules of chats: pure values, no clock, no SQL, no TL."""
