import type { RecomputeRegion } from './autograd/recompute.ts';
import type { AxisMix, AxisTypes } from './graph/axis-types.ts';
import type { Node, Region } from './graph/node.ts';
import type { KeepPart } from './nn/parameter.ts';
import type { RandomStreams } from './random/keys.ts';
import type { PendingWork, UpdateGroup } from './realize/pending.ts';
import type { Session } from './realize/session.ts';
import { describeValue } from './spec/describe-value.ts';
import { ConfigError } from './spec/errors.ts';
import type { AfterBackward } from './tensor/handle.ts';
import type { Statistics, TimelineEvent } from './timeline.ts';

// All that code of a rank reads without being given it. A rank is a thread: it has modules of its own.

/** What holds for as long as a body runs. */
export interface Scope {
  /** Whether nodes take part in gradients. */
  readonly isGradEnabled: boolean;
  /** Whether what is built is made by a function of the library on the way to its result. */
  readonly isInLibrary: boolean;
  /** Whether modules that a constructor makes are dropped again. */
  readonly isTemporary: boolean;
  /** What backward may make again. */
  readonly region: Region | null;
  /** Where this is true, what is assigned to keeps its contents. */
  readonly keptIf: Node | null;
  /** Of which updates either all are made or none. */
  readonly updateGroup: UpdateGroup | null;
  /** What new parameters keep of their initial values. */
  readonly keepPart: KeepPart | null;
  /** This rank's coordinates in the regions that work on parts, outermost first. */
  readonly coordinates: readonly number[];
}

let scope: Scope = {
  isGradEnabled: true,
  isInLibrary: false,
  isTemporary: false,
  region: null,
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

/** What a rank has until it ends. */
export interface RankState {
  session: Session | null;
  streams: RandomStreams | null;
  /** The numbers of the next node, and of the next walk through a graph. */
  nextNodeId: number;
  nextWalk: number;
  /** Of nodes that are made now: backward passes that make something again begin another one. */
  era: number;
  /** Those that nodes have or had, and how those of inputs are mixed, by what they say. */
  readonly axisTypes: Map<string, AxisTypes>;
  readonly axisMixes: Map<string, AxisMix>;
  /** Names of values whose axis types were declared, for errors. */
  readonly axisClaims: WeakMap<Node, string>;
  /** Whether nodes keep the line that asked for them. */
  tracesCallSites: boolean;
  /** Of small results, which the garbage collector has not been told of. */
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
  readonly enteredRegions: Set<RecomputeRegion>;
  readonly counters: { -readonly [K in keyof Statistics]: number };
  readonly timelineListeners: Set<(event: TimelineEvent) => void>;
}

export const rankState: RankState = {
  session: null,
  streams: null,
  nextNodeId: 1,
  nextWalk: 1,
  era: 0,
  axisTypes: new Map(),
  axisMixes: new Map(),
  axisClaims: new WeakMap(),
  tracesCallSites: true,
  unweighedBytes: 0,
  pending: new Map(),
  deepestPending: 0,
  released: new Map(),
  smallValues: new Set(),
  afterBackward: [],
  enteredRegions: new Set(),
  counters: {
    computeMs: 0,
    communicationMs: 0,
    graphMs: 0,
    compileMs: 0,
    plansMade: 0,
    plansDropped: 0,
    plansRun: 0,
    programsCompiled: 0,
    programsDisposed: 0,
    collectives: 0,
    collectiveBytes: 0,
  },
  timelineListeners: new Set(),
};

/**
 * Runs a body whose surroundings end when it returns. Throws ConfigError where it returns a promise:
 * what stands behind its first `await` would run outside of them, without a word.
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
