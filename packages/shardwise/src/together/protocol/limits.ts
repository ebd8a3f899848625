/** The version of the messages between members and their coordinator. */
export const PROTOCOL_VERSION = 1;

/** The bytes of data in a frame. Longer data goes in several. */
export const PIECE_BYTES: number = 256 * 1024;

/** The longest frame that anybody may send. */
export const MAX_FRAME_BYTES: number = PIECE_BYTES + 1024;

/** The longest text of a message, in characters. */
export const MAX_TEXT_LENGTH: number = 256 * 1024;

export const MAX_NAME_LENGTH = 64;

/** The longest token, in characters. */
export const MAX_TOKEN_LENGTH = 1024;

/** The most members of a run. */
export const MAX_MEMBERS = 1024;

/** The coordinator says that it is there after so many milliseconds in which it has said nothing else. */
export const ALIVE_MS = 10_000;

/** Whoever has heard nothing for so many milliseconds takes the connection for lost. */
export const SILENT_MS = 40_000;
