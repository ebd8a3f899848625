import type { FlightDump } from '@shardwise/collectives';
import { z } from 'zod';

const MAX_ENTRIES = 100_000;
const MAX_GROUPS = 10_000;
const MAX_RANKS = 65_536;
const MAX_FRAMES = 64;

const text = z.string().max(4096);
const count = z.int().nonnegative();
const rank = z.int().nonnegative().max(MAX_RANKS);
/** z.int() does not accept nanoseconds since the epoch, because they are not safe integers. */
const nanoseconds = z.number().nonnegative();
const sizes = z.array(z.array(count).max(16)).max(MAX_RANKS);
const dtypes = z.array(text).max(MAX_RANKS);
const splits = z.array(count).max(MAX_RANKS);
const number = z.string().regex(/^\d{1,9}$/);

const entry = z.object({
  record_id: count,
  pg_id: count,
  process_group: z.tuple([text, text]),
  collective_seq_id: count,
  p2p_seq_id: count,
  op_id: count,
  profiling_name: text,
  time_created_ns: nanoseconds,
  duration_ms: z.number().nonnegative().nullable(),
  input_sizes: sizes,
  input_dtypes: dtypes,
  output_sizes: sizes,
  output_dtypes: dtypes,
  state: z.enum(['scheduled', 'started', 'completed']),
  time_discovered_started_ns: nanoseconds.nullable(),
  time_discovered_completed_ns: nanoseconds.nullable(),
  retired: z.boolean(),
  timeout_ms: z.number().positive().nullable(),
  is_p2p: z.boolean(),
  frames: z.array(z.object({ name: text, filename: text, line: count })).max(MAX_FRAMES),
  reduce_op: text.nullable(),
  root: rank.nullable(),
  splits: z.object({ input: splits, output: splits }).nullable(),
  message: z.object({ peer: rank, tag: count, number: count }).nullable(),
});

const status = z.int().min(-1);

/** Accepts a dump of any origin if its fields have the right types and lie within bounds. */
export const dumpSchema: z.ZodType<FlightDump> = z.object({
  version: z.literal('1.0'),
  rank,
  world_size: z.int().positive().max(MAX_RANKS),
  pg_config: z
    .record(
      number,
      z.object({
        name: text,
        desc: text,
        ranks: z
          .string()
          .max(8 * MAX_RANKS)
          .regex(/^\[(\d{1,5}(, \d{1,5})*)?\]$/),
      }),
    )
    .refine((groups) => Object.keys(groups).length <= MAX_GROUPS, 'too many groups'),
  pg_status: z.record(
    number,
    z.object({
      last_enqueued_collective: status,
      last_started_collective: status,
      last_completed_collective: status,
    }),
  ),
  entries: z.array(entry).max(MAX_ENTRIES),
  failure: z
    .object({
      code: text,
      message: z.string().max(65_536),
      time_ns: nanoseconds,
      record_id: count,
      missing_ranks: z.array(rank).max(MAX_RANKS).nullable(),
    })
    .nullable(),
});
