import type { SentDtype } from './sent-gradients.ts';
import type { ServedJob, UpdateRecipe } from './served-job.ts';
import type { ShardHead } from './shard-head.ts';
import type { TableRequest } from './table/table-request.ts';

interface FromWorker {
  /** Which range of keys: a server may keep a copy of another one's. */
  readonly shard: number;
  readonly worker: number;
  /** Which start of the worker it comes from. */
  readonly session: number;
}

export interface JoinRequest {
  readonly kind: 'join';
  readonly shard: number;
  readonly worker: number;
  readonly job: ServedJob;
}

/** Arrays: the values of each parameter. */
export interface InitialiseRequest extends FromWorker {
  readonly kind: 'initialise';
}

/** Arrays: the gradients of the parameters whose `present` is true; for elastic averaging, the values of all. */
export interface PushRequest extends FromWorker {
  readonly kind: 'push';
  /** Counts the pushes of a worker from 1: one that comes twice counts once. */
  readonly sequence: number;
  /** Which step the gradient belongs to, as the answer before has said. */
  readonly round: number;
  readonly recipe: UpdateRecipe | null;
  readonly present: readonly boolean[];
  /** Of the arrays. */
  readonly dtype: SentDtype;
}

export interface PullRequest extends FromWorker {
  readonly kind: 'pull';
}

export interface LeaveRequest extends FromWorker {
  readonly kind: 'leave';
}

/** What workers ask of a range. */
export type ServerRequest =
  | JoinRequest
  | InitialiseRequest
  | PushRequest
  | PullRequest
  | LeaveRequest;

/** A change that the server of a range has made, for the one that has a copy. Arrays: those of the request. */
export interface ReplicateRequest {
  readonly kind: 'replicate';
  readonly shard: number;
  /** Counts who has been the server of the range. */
  readonly term: number;
  readonly request: ServerRequest;
}

/** All of a range, for the server that is to have a copy. Arrays: as in a snapshot. */
export interface AdoptRequest {
  readonly kind: 'adopt';
  readonly shard: number;
  readonly term: number;
  readonly head: ShardHead;
}

/** The server of a range does not answer: the one that has a copy takes its place. */
export interface PromoteRequest {
  readonly kind: 'promote';
  readonly shard: number;
}

/** What a server is asked, by workers and by other servers. */
export type ShardRequest = ServerRequest | ReplicateRequest | AdoptRequest | PromoteRequest;

export type AnyRequest = ShardRequest | TableRequest;

type Check = (value: unknown) => boolean;

const count: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const text: Check = (value) => typeof value === 'string' && value.length <= 4096;
const flag: Check = (value) => typeof value === 'boolean';
const number: Check = (value) => typeof value === 'number';
const plain: Check = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const either =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const none: Check = (value) => value === null;
const fields =
  (table: Readonly<Record<string, Check>>): Check =>
  (value) =>
    plain(value) &&
    Object.keys(Object(value)).length === Object.keys(table).length &&
    Object.entries(table).every(
      ([name, check]) => Object.hasOwn(Object(value), name) && check(Object(value)[name]),
    );
const pair =
  (first: Check, second: Check): Check =>
  (value) =>
    Array.isArray(value) && value.length === 2 && first(value[0]) && second(value[1]);
const literal =
  (...words: readonly string[]): Check =>
  (value) =>
    words.some((word) => word === value);

const consistency = either(
  fields({ kind: literal('synchronous'), backupWorkers: count }),
  fields({ kind: literal('bounded'), staleness: either(count, none) }),
  fields({ kind: literal('elastic'), everySteps: count, movingRate: number }),
);
const job = fields({
  workers: count,
  consistency,
  parameters: list(fields({ name: text, shape: list(count) })),
});
const recipe = fields({
  optimizer: text,
  groups: list(fields({ params: list(count), settings: plain })),
});
const fromWorker = { shard: count, worker: count, session: count };

const requests = {
  join: fields({ kind: text, shard: count, worker: count, job }),
  initialise: fields({ kind: text, ...fromWorker }),
  push: fields({
    kind: text,
    ...fromWorker,
    sequence: count,
    round: count,
    recipe: either(recipe, none),
    present: list(flag),
    dtype: literal('f32', 'f16', 'bf16'),
  }),
  pull: fields({ kind: text, ...fromWorker }),
  leave: fields({ kind: text, ...fromWorker }),
} satisfies Record<ServerRequest['kind'], Check>;

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
    recipe: either(recipe, none),
    states: list(fields({ parameter: text, name: text, dtype: text, shape: list(count) })),
  }),
  waiting: list(fields({ worker: count, recipe, present: list(flag) })),
});

// It becomes part of the name of a file.
const tableName: Check = (value) =>
  typeof value === 'string' && /^[A-Za-z0-9][\w-]{0,63}$/.test(value);
const below =
  (limit: number): Check =>
  (value) =>
    count(value) && Number(value) > 0 && Number(value) < limit;
const tableSpec = fields({
  name: tableName,
  rows: below(2 ** 31),
  dims: below(65_537),
  standardDeviation: number,
  seed: count,
  optimizer: literal('SGD', 'Adagrad'),
  epsilon: number,
});

const isServerRequest = oneOf(requests);

const anyRequest = oneOf({
  ...requests,
  replicate: fields({ kind: text, shard: count, term: count, request: isServerRequest }),
  adopt: fields({ kind: text, shard: count, term: count, head }),
  promote: fields({ kind: text, shard: count }),
  openTable: fields({ kind: text, shard: count, table: tableSpec }),
  pullRows: fields({ kind: text, shard: count, name: tableName }),
  pushRows: fields({
    kind: text,
    shard: count,
    name: tableName,
    client: text,
    sequence: count,
    lr: number,
  }),
} satisfies Record<AnyRequest['kind'], Check>);

/** Whether what came from outside has the fields of a request, and no others. */
export function isRequest(value: unknown): value is AnyRequest {
  return anyRequest(value);
}

/** Whether what was read from a file has the fields of a snapshot's head. */
export function isShardHead(value: unknown): value is ShardHead {
  return head(value);
}

/** The check that belongs to the kind of a value. */
function oneOf(checks: Readonly<Record<string, Check>>): Check {
  return (value) => {
    if (typeof value !== 'object' || value === null || !('kind' in value)) return false;
    const { kind } = value;
    return Object.entries(checks).some(([name, check]) => name === kind && check(value));
  };
}
