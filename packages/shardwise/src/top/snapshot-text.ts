import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import { MAX_NODES } from '../rendezvous/generation.ts';
import {
  MAX_SNAPSHOT_RANKS,
  type RankSnapshot,
  rankStates,
  type RunSnapshot,
  SNAPSHOT_FORMAT,
} from './run-snapshot.ts';

/** The greatest length of a text in a snapshot. */
export const MAX_TEXT = 4096;

const text = z.string().max(MAX_TEXT);
const amount = z.number().nonnegative();
/** JSON has no word for a loss that has diverged. */
const figure = z.union([
  z.number(),
  z.enum(['NaN', 'Infinity', '-Infinity']).transform((word) => Number(word)),
]);

const rates = {
  tokensPerSecond: amount.optional(),
  samplesPerSecond: amount.optional(),
  memoryBytes: amount.optional(),
  sentBytesPerSecond: amount.optional(),
  receivedBytesPerSecond: amount.optional(),
};

const rankSchema = z.object({
  rank: z.int().nonnegative(),
  host: text.optional(),
  state: z.enum(rankStates),
  exitCode: z.int().optional(),
  step: z.int().nonnegative().optional(),
  loss: figure.optional(),
  stepMs: amount.optional(),
  computeMs: amount.optional(),
  communicationMs: amount.optional(),
  waitingMs: amount.optional(),
  dataMs: amount.optional(),
  graphMs: amount.optional(),
  slowness: z.number().optional(),
  quietMs: amount,
  ...rates,
}) satisfies z.ZodType<RankSnapshot>;

const snapshotSchema: z.ZodType<RunSnapshot> = z.object({
  format: z.literal(SNAPSHOT_FORMAT),
  version: text,
  sequence: z.int().positive(),
  writtenMs: amount,
  phase: z.enum(['gathering', 'starting', 'running', 'stopping', 'finished', 'stopped', 'failed']),
  reason: text.optional(),
  script: text,
  runDirectory: text,
  startMs: amount,
  transport: text.optional(),
  hosts: z.array(z.object({ name: text, ranks: z.int().positive() })).max(MAX_NODES),
  worldSize: z.int().positive(),
  restarts: z.int().nonnegative(),
  restartReason: text.optional(),
  step: z.int().nonnegative().optional(),
  totalSteps: z.int().positive().optional(),
  loss: figure.optional(),
  validationLoss: figure.optional(),
  stepMs: amount.optional(),
  leftMs: amount.optional(),
  checkpointStep: z.int().nonnegative().optional(),
  ranks: z.array(rankSchema).max(MAX_SNAPSHOT_RANKS),
  ...rates,
});

/** Writes a snapshot as JSON. Figures that are not finite become texts. */
export function snapshotText(snapshot: RunSnapshot, indent?: number): string {
  const word = (_: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
  return JSON.stringify(snapshot, word, indent);
}

const otherFormat = z.object({ format: z.int(), version: text });

/**
 * Reads a snapshot that was found at `where`. Throws ConfigError for one of another version, and for anything that no
 * launcher writes.
 */
export function parseSnapshot(json: string, where: string): RunSnapshot {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw wrongSnapshot(where, 'it is not JSON', cause);
  }
  const parsed = snapshotSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const other = otherFormat.safeParse(value);
  if (other.success && other.data.format !== SNAPSHOT_FORMAT) {
    const { format, version } = other.data;
    throw new ConfigError(
      {
        asked: `Showing the run of ${where}`,
        found: `shardwise ${version.slice(0, 40)} runs it and writes format ${format}; this version reads format ${SNAPSHOT_FORMAT}`,
        todo: 'Use the version of shardwise that runs it',
      },
      { where, format },
    );
  }
  const issue = parsed.error.issues[0];
  throw wrongSnapshot(where, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
}

function wrongSnapshot(where: string, found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    {
      asked: `Showing the run of ${where}`,
      found: `what no launcher of this version writes (${found})`,
      todo: 'Use the version of shardwise that runs it',
    },
    { where },
    cause === undefined ? {} : { cause },
  );
}
