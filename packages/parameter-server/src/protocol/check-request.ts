import { check, type DType, dtypes, option } from '@shardwise/core/extend';
import type { ConsistencyRule } from './consistency.ts';
import type { ServedJob, UpdateRecipe } from './job.ts';
import { checkReceived } from './refusal.ts';
import type { AnyRequest, ServerRequest } from './request.ts';
import type { SentDtype } from './arrays.ts';
import type { ShardHead, StoredHead } from './shard-head.ts';
import type { TableSpec } from './request.ts';

/** Longer lists are refused: no model has as many parameters, and no job as many workers. */
const MAX_ELEMENTS = 1 << 20;

const { count } = option;
const text = check.limitedText(4096);
const counts = listOf(count);
const anything: check.Check<unknown> = (value) => value;

const consistency = byKind<ConsistencyRule>({
  synchronous: check.object({ kind: check.exactly('synchronous'), backupWorkers: count }),
  bounded: check.object({ kind: check.exactly('bounded'), staleness: check.nullable(count) }),
  elastic: check.object({
    kind: check.exactly('elastic'),
    everySteps: count,
    movingRate: option.number,
  }),
});
const job = check.object<ServedJob>({
  workers: count,
  consistency,
  parameters: listOf(check.object({ name: text, shape: counts })),
});
const recipe = check.object<UpdateRecipe>({
  optimizer: text,
  groups: listOf(check.object({ params: counts, settings: check.record(anything, 4096) })),
});
const sentDtype = option.oneOf<SentDtype>('f32', 'f16', 'bf16');
const fromWorker = { shard: count, worker: count, session: count };

/** The checks of the requests by which workers read or change a range. */
const ofWorkers: ChecksByKind<ServerRequest> = {
  join: check.object({ kind: check.exactly('join'), shard: count, worker: count, job }),
  initialise: check.object({ kind: check.exactly('initialise'), ...fromWorker }),
  push: check.object({
    kind: check.exactly('push'),
    ...fromWorker,
    sequence: count,
    step: count,
    recipe: check.nullable(recipe),
    present: listOf(option.flag),
    parts: counts,
    dtype: sentDtype,
  }),
  pull: check.object({ kind: check.exactly('pull'), ...fromWorker, parameters: counts }),
  leave: check.object({ kind: check.exactly('leave'), ...fromWorker }),
};

const shardHead = check.object<ShardHead>({
  job,
  step: count,
  version: count,
  sessions: count,
  known: counts,
  members: listOf(pair(count, check.object({ session: count, sequence: count, read: count }))),
  left: listOf(pair(count, count)),
  clock: listOf(pair(count, count)),
  isInitialised: option.flag,
  stored: check.object<StoredHead>({
    recipe: check.nullable(recipe),
    states: listOf(
      check.object({
        parameter: text,
        name: text,
        dtype: option.oneOf(...(Object.keys(dtypes) as DType[])),
        shape: counts,
      }),
    ),
  }),
  waiting: listOf(check.object({ worker: count, recipe, present: listOf(option.flag) })),
});

// The name becomes part of the name of a file.
const tableName = check.limitedText(64, /^[A-Za-z0-9][\w-]{0,63}$/);
const table = check.object<TableSpec>({
  name: tableName,
  rows: option.integer(1, 2 ** 31 - 1),
  dims: option.integer(1, 65_536),
  standardDeviation: option.number,
  seed: count,
  optimizer: option.oneOf('SGD', 'Adagrad'),
  epsilon: option.number,
});

const anyRequest = byKind<AnyRequest>({
  ...ofWorkers,
  part: check.object({
    kind: check.exactly('part'),
    ...fromWorker,
    number: count,
    parameters: counts,
    dtype: sentDtype,
  }),
  replicate: check.object({
    kind: check.exactly('replicate'),
    shard: count,
    term: count,
    request: byKind<ServerRequest>(ofWorkers),
  }),
  adopt: check.object({
    kind: check.exactly('adopt'),
    shard: count,
    term: count,
    head: shardHead,
  }),
  promote: check.object({ kind: check.exactly('promote'), shard: count }),
  openTable: check.object({ kind: check.exactly('openTable'), shard: count, table }),
  pullRows: check.object({ kind: check.exactly('pullRows'), shard: count, name: tableName }),
  pushRows: check.object({
    kind: check.exactly('pushRows'),
    shard: count,
    name: tableName,
    client: text,
    sequence: count,
    lr: option.number,
  }),
});

/** Returns a received request. Throws RefusedError if it does not have exactly the fields of its kind. */
export function checkRequest(value: unknown): AnyRequest {
  return checkReceived(anyRequest, value, 'a request');
}

/** Returns the head of a snapshot. Throws SavedDataError if it does not have exactly its fields. */
export function checkShardHead(value: unknown): ShardHead {
  return shardHead(value, 'head');
}

/** The check of each kind of a union. */
type ChecksByKind<Union extends { readonly kind: string }> = {
  readonly [Kind in Union['kind']]: check.Check<Extract<Union, { readonly kind: Kind }>>;
};

/** Checks an object whose `kind` decides which other fields it has. */
function byKind<Union extends { readonly kind: string }>(
  checks: ChecksByKind<Union>,
): check.Check<Union> {
  const known = new Map<string, check.Check<Union>>(Object.entries<check.Check<Union>>(checks));
  const kinds = option.oneOf(...known.keys());
  return (value, path) => {
    const kind = check.checkValue(kinds, Object(value).kind, path === '' ? 'kind' : `${path}.kind`);
    return known.get(kind)!(value, path === '' ? kind : path);
  };
}

function listOf<T>(element: check.Expected<T>): check.Check<T[]> {
  return check.list(element, 0, MAX_ELEMENTS);
}

function pair<A, B>(first: check.Expected<A>, second: check.Expected<B>): check.Check<[A, B]> {
  const two = check.list(anything, 2, 2);
  return (value, path) => {
    const [a, b] = two(value, path);
    return [check.checkValue(first, a, `${path}[0]`), check.checkValue(second, b, `${path}[1]`)];
  };
}
