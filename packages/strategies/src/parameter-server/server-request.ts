import type { Shape } from '@shardwise/core/extend';
import type { ConsistencyRule } from './consistency.ts';

/** A parameter as the servers know it; its dtype is f32. */
export interface ServedParameter {
  readonly name: string;
  readonly shape: Shape;
}

/** How to update: an optimizer of the table of the server, and the settings of this step. */
export interface UpdateRecipe {
  readonly optimizer: string;
  /** Which parameters of the server's are in each group, by their place, and the group's settings. */
  readonly groups: readonly {
    readonly params: readonly number[];
    readonly settings: Readonly<Record<string, unknown>>;
  }[];
}

/** What all workers of a job say alike. */
export interface ServedJob {
  /** How many workers there are; each has a number below it. */
  readonly workers: number;
  readonly consistency: ConsistencyRule;
  /** The parameters of this server's range. */
  readonly parameters: readonly ServedParameter[];
}

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
}

export interface PullRequest extends FromWorker {
  readonly kind: 'pull';
}

export interface LeaveRequest extends FromWorker {
  readonly kind: 'leave';
}

export type ServerRequest =
  | JoinRequest
  | InitialiseRequest
  | PushRequest
  | PullRequest
  | LeaveRequest;

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
  }),
  pull: fields({ kind: text, ...fromWorker }),
  leave: fields({ kind: text, ...fromWorker }),
} satisfies Record<ServerRequest['kind'], Check>;

/** Whether what came from the wire has the fields of a request, and no others. */
export function isServerRequest(value: unknown): value is ServerRequest {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return false;
  const { kind } = value;
  return Object.entries(requests).some(([name, check]) => name === kind && check(value));
}
