import { CheckpointError } from '@shardwise/core';
import { z } from 'zod';

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonValue[]
  | { [key: string]: JsonValue };

/** Size and CRC-32 (of zlib) of a file that was written. */
export interface FileDigest {
  readonly byteLength: number;
  readonly crc32: number;
}

/** What state.json says of a checkpoint. */
export interface CheckpointState {
  readonly step: number;
  readonly worldSize: number;
  readonly savedAt: string;
  readonly files: { readonly model: FileDigest; readonly optimizer: FileDigest };
  readonly extra: JsonValue;
}

const FORMAT = 'shardwise-checkpoint';
const VERSION = 1;

const fileSchema = z.object({ byteLength: z.int().nonnegative(), crc32: z.int().nonnegative() });

const stateSchema = z.object({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  step: z.int().nonnegative(),
  worldSize: z.int().positive(),
  savedAt: z.iso.datetime(),
  files: z.object({ model: fileSchema, optimizer: fileSchema }),
  extra: z.json(),
});

export function encodeState(state: CheckpointState): Uint8Array {
  const text = JSON.stringify({ format: FORMAT, version: VERSION, ...state }, null, 2);
  return new TextEncoder().encode(`${text}\n`);
}

/** Throws CheckpointError, naming `path`, for anything but a state that this version wrote. */
export function decodeState(text: string, path: string): CheckpointState {
  try {
    return stateSchema.parse(JSON.parse(text));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? cause.issues[0] : undefined;
    throw new CheckpointError(
      {
        asked: `Reading ${path}`,
        found: issue
          ? `"${issue.path.join('.')}" is not what version ${VERSION} writes (${issue.message})`
          : 'it is no JSON',
        todo: 'Load another checkpoint, or one written by this version',
      },
      { path },
      { cause },
    );
  }
}
