import {
  below,
  byKind,
  type Check,
  count,
  fields,
  flag,
  list,
  literal,
  matching,
  number,
  orNull,
  pair,
  plain,
  text,
} from './request-fields.ts';
import type { AnyRequest, ServerRequest } from './request.ts';
import type { ShardHead } from './shard-head.ts';

// These are plain checks because strategies load in web pages, and a library for schemas would be as large as all
// strategies.

const consistency = byKind({
  synchronous: { backupWorkers: count },
  bounded: { staleness: orNull(count) },
  elastic: { everySteps: count, movingRate: number },
});
const job = fields({
  workers: count,
  consistency,
  parameters: list(fields({ name: text, shape: list(count) })),
});
const recipe = fields({
  optimizer: text,
  groups: list(fields({ params: list(count), settings: plain })),
});
const dtype = literal('f32', 'f16', 'bf16');
const fromWorker = { shard: count, worker: count, session: count };

type Fields = Readonly<Record<string, Check>>;

const ofWorkers = {
  join: { shard: count, worker: count, job },
  initialise: fromWorker,
  push: {
    ...fromWorker,
    sequence: count,
    round: count,
    recipe: orNull(recipe),
    present: list(flag),
    parts: list(count),
    dtype,
  },
  pull: { ...fromWorker, parameters: list(count) },
  leave: fromWorker,
} satisfies Record<ServerRequest['kind'], Fields>;

const head = fields({
  job,
  round: count,
  version: count,
  sessions: count,
  known: list(count),
  members: list(pair(count, fields({ session: count, sequence: count, read: count }))),
  left: list(pair(count, count)),
  clock: list(pair(count, count)),
  isInitialised: flag,
  stored: fields({
    recipe: orNull(recipe),
    states: list(fields({ parameter: text, name: text, dtype: text, shape: list(count) })),
  }),
  waiting: list(fields({ worker: count, recipe, present: list(flag) })),
});

// The name becomes part of the name of a file.
const tableName = matching(/^[A-Za-z0-9][\w-]{0,63}$/);
const table = fields({
  name: tableName,
  rows: below(2 ** 31),
  dims: below(65_537),
  standardDeviation: number,
  seed: count,
  optimizer: literal('SGD', 'Adagrad'),
  epsilon: number,
});

const anyRequest = byKind({
  ...ofWorkers,
  part: { ...fromWorker, number: count, parameters: list(count), dtype },
  replicate: { shard: count, term: count, request: byKind(ofWorkers) },
  adopt: { shard: count, term: count, head },
  promote: { shard: count },
  openTable: { shard: count, table },
  pullRows: { shard: count, name: tableName },
  pushRows: { shard: count, name: tableName, client: text, sequence: count, lr: number },
} satisfies Record<AnyRequest['kind'], Fields>);

/** Calls `refuse` with the fault if a received value does not have exactly the fields of a request. */
export function requireRequest(
  value: unknown,
  refuse: (found: string) => Error,
): asserts value is AnyRequest {
  const wrong = anyRequest(value, 'the head');
  if (wrong !== undefined) throw refuse(wrong);
}

/** Calls `refuse` with the fault if a value read from a file does not have exactly the fields of a snapshot's head. */
export function requireShardHead(
  value: unknown,
  refuse: (found: string) => Error,
): asserts value is ShardHead {
  const wrong = head(value, 'the head');
  if (wrong !== undefined) throw refuse(wrong);
}
