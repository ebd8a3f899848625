import { CollectiveError, type ErrorParts } from '@shardwise/core/spec';

/** What a connection ends with when the other side does not speak as agreed. */
export function protocolError(
  found: string,
  fields: Readonly<Record<string, unknown>> = {},
): CollectiveError {
  return new CollectiveError(
    {
      asked: 'A frame of a peer',
      found,
      todo: 'Check that every process runs this version of Shardwise, and that nothing else uses the port',
    },
    fields,
  );
}

/** Why a connection was not let in; trying again does not help. */
export function handshakeError(
  parts: ErrorParts,
  fields: Readonly<Record<string, unknown>> = {},
): CollectiveError {
  return new CollectiveError(parts, fields);
}
