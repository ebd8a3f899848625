import { CollectiveError, type ErrorParts } from '@shardwise/core/spec';

/** The error of a connection whose other side does not keep to the protocol. */
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

/** Why a connection was refused. Trying again does not help. */
export function handshakeError(
  parts: ErrorParts,
  fields: Readonly<Record<string, unknown>> = {},
): CollectiveError {
  return new CollectiveError(parts, fields);
}
