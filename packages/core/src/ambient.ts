import type { CallSite } from './graph/call-site.ts';
import type { Node, Region } from './graph/node.ts';
import type { KeepPart } from './nn/initial-part.ts';
import type { RandomStreams } from './random/random-streams.ts';
import type { PendingWork, UpdateGroup } from './realize/pending-work.ts';
import type { Session } from './realize/session.ts';
import { describeValue } from './spec/describe-value.ts';
import type { HalfDType } from './spec/dtype.ts';
import { ConfigError } from './spec/errors.ts';
import type { ProcessGroup } from './spec/process-group.ts';
import type { Statistics, TimelineEvent, VaryingSize } from './timeline-event.ts';

// All that code of a rank reads without being given it. A rank is a thread: it has modules of its own.
// As nearly every file imports this one, the files of the types that it imports must not.

/** What holds for as long as a body runs. */
export interface Scope {
  /** Whether nodes take part in gradients. */
  readonly isGradEnabled: boolean;
  /** To what operands of products are rounded; null outside of autocast. */
  readonly autocast: HalfDType | null;
  /** Whether what is built is made by a function of the library on the way to its result. */
  readonly isInLibrary: boolean;
  /** Whether modules that a constructor makes are dropped again. */
  readonly isTemporary: boolean;
  /** What backward may make again. */
  readonly region: Region | null;
  /** Where nodes come from that have no line of their own, or none; null where each takes its own. */
  readonly site: CallSite | 'none' | null;
  /** A scalar: where it is true in a run, tensors that are assigned to keep their contents. */
  readonly keptIf: Node | null;
  /** The group that updates belong to, of which a run makes either all or none. */
  readonly updateGroup: UpdateGroup | null;
  /** What new parameters keep of their initial values. */
  readonly keepPart: KeepPart | null;
  /** This rank's coordinates in the regions that work on parts, outermost first. */
  readonly coordinates: readonly number[];
}

let scope: Scope = {
  isGradEnabled: true,
  autocast: null,
  isInLibrary: false,
  isTemporary: false,
  region: null,
  site: null,
  keptIf: null,
  updateGroup: null,
  keepPart: null,
  coordinates: [],
};

export function currentScope(): Scope {
  return scope;
}

/**
 * Runs `body` in another scope. `name` is what users call, for errors. Throws ConfigError for a body that
 * returns a promise.
 */
export function within<R>(name: string, changes: Partial<Scope>, body: () => R): R {
  const before = scope;
  scope = { ...before, ...changes };
  try {
    return synchronously(name, body);
  } finally {
    scope = before;
  }
}

/** Called with whether the backward pass visited every leaf; false where it failed on its way. */
export type AfterBackward = (completed: boolean) => void;

/** What a rank has until it ends. */
export interface RankState {
  session: Session | null;
  streams: RandomStreams | null;
  /** Groups that were made of others, by what they are for. */
  readonly communicators: WeakMap<ProcessGroup, Map<string, ProcessGroup>>;
  /** The numbers of the next node, and of the next walk through a graph. */
  nextNodeId: number;
  nextWalk: number;
  /** The era of nodes that are made now. A backward pass that makes something again begins another one. */
  era: number;
  /** Names of values whose axis types were declared, for errors. */
  readonly axisClaims: WeakMap<Node, string>;
  /** Whether nodes keep the line that asked for them. */
  tracesCallSites: boolean;
  /** Bytes of small results that the garbage collector has not been told of. */
  unweighedBytes: number;
  /** What the next run computes, whoever asks for it. */
  readonly pending: Map<Node, PendingWork>;
  /** How many works have taken each other's place, at most. */
  deepestPending: number;
  /** Whose memory is freed after the next run, and what frees it. */
  readonly released: Map<Node, string>;
  /** Small values that the program has made since the last step, not computed yet, in its order. */
  readonly smallValues: Set<Node>;
  /** Called when the backward pass that is under way is over. */
  readonly afterBackward: AfterBackward[];
  /** Regions of which the backward pass that is under way has made something again. */
  readonly enteredRegions: Set<Region>;
  /** What varies in each plan that serves several sizes. */
  readonly varyingSizes: Map<object, readonly VaryingSize[]>;
  readonly counters: { -readonly [K in keyof Statistics]: number };
  readonly timelineListeners: Set<(event: TimelineEvent) => void>;
  /** When the device ended what was recorded of it last; a performance.now() time. */
  deviceIdleFrom: number;
}

export const rankState: RankState = {
  session: null,
  streams: null,
  communicators: new WeakMap(),
  nextNodeId: 1,
  nextWalk: 1,
  era: 0,
  axisClaims: new WeakMap(),
  tracesCallSites: true,
  unweighedBytes: 0,
  pending: new Map(),
  deepestPending: 0,
  released: new Map(),
  smallValues: new Set(),
  afterBackward: [],
  enteredRegions: new Set(),
  varyingSizes: new Map(),
  counters: {
    computeMs: 0,
    communicationMs: 0,
    graphMs: 0,
    compileMs: 0,
    plansMade: 0,
    sizedPlansMade: 0,
    plansDropped: 0,
    plansRun: 0,
    programsCompiled: 0,
    programsDisposed: 0,
    collectives: 0,
    collectiveBytes: 0,
  },
  timelineListeners: new Set(),
  deviceIdleFrom: 0,
};

/**
 * Runs a body whose scope ends when it returns. Throws ConfigError if it returns a promise: the code after its
 * first `await` would silently run outside of the scope.
 */
export function synchronously<T>(scope: string, body: () => T): T {
  if (typeof body !== 'function') throw noBody(scope, body);
  const result = body();
  if (!isPromiseLike(result)) return result;
  // What becomes of it is of no interest any more.
  result.then(undefined, () => {});
  throw new ConfigError(
    {
      asked: `${scope} with a body that returns a promise`,
      found: 'it would end at the first await, and what follows would run outside of it',
      todo: `Build tensors in a body that is not async, and await them outside: const y = ${scope}(() => model.forward(x)); await y.data()`,
    },
    { scope },
  );
}

function noBody(scope: string, given: unknown): ConfigError {
  return new ConfigError(
    {
      asked: `${scope} with ${describeValue(given)}`,
      found: 'no function that it could run',
      todo: `Write ${scope}(() => model.forward(x))`,
    },
    { scope },
  );
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  );
}
