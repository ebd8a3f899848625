import type { CapturedStack } from './base/stack.ts';
import type { CallSite } from './graph/call-site.ts';
import type { CollectiveOrder, ForwardPass, Unissued } from './graph/collective-order.ts';
import type { GraphObserver } from './graph/graph-observer.ts';
import type { HostValue, Node, Region, Seeded } from './graph/node.ts';
import type { AxisSettings } from './graph/noted-settings.ts';
import type { SequencePart } from './graph/sequence-part.ts';
import type { KeepPart } from './nn/parameter/initial-part.ts';
import type { ParameterFormat } from './nn/parameter/parameter-format.ts';
import type { RandomStreams } from './random/random-streams.ts';
import type { PendingWork, UpdateGroup } from './realize/pending/pending-work.ts';
import type { Session } from './realize/session.ts';
import type { DType, HalfDType, Shape } from './spec/dtype.ts';
import { ConfigError, describeValue } from './spec/errors.ts';
import type { CallIdentity, ProcessGroup } from './spec/process-group.ts';
import type { ModelSpec, Plan, Strategy } from './spec/strategy.ts';
import type { Statistics, TimelineEvent, VaryingSize } from './timeline-event.ts';

// The ambient state of a rank, which code reads without being given it. A rank is a thread, so it has its own modules.
// Tests may run several ranks in one thread: what they replace is `rankState`, so no module keeps a part of it.
// Nearly every file imports this one. The files whose types it imports must therefore not import it.

/** The settings that hold while a body runs. */
export interface Scope {
  /** Whether nodes take part in gradients. */
  readonly isGradEnabled: boolean;
  /** The dtype to which operands of products are rounded. Null outside of autocast. */
  readonly autocast: HalfDType | null;
  /** Whether a function of the library is building its result. Its inner nodes do not count as the program's values. */
  readonly isInLibrary: boolean;
  /** Whether modules behave as in evaluation, whatever their modes are. */
  readonly isEvaluating: boolean;
  /** Whether the modules that are constructed now are dropped afterwards. */
  readonly isTemporary: boolean;
  /** The place of new collectives in the order of the program. */
  readonly collectiveOrder: CollectiveOrder;
  /**
   * What new collectives are: the name that the library gives them, or the collective whose gradient they make. Null:
   * they are called by the lines of the program.
   */
  readonly collectiveName: string | CallIdentity | null;
  /** The forward pass of a model that is being built. */
  readonly forwardPass: ForwardPass | null;
  /** The region that new nodes belong to. The backward pass may recompute them. */
  readonly region: Region | null;
  /** The call site of new nodes, or 'none'. Null: each node captures its own. */
  readonly site: CallSite | 'none' | null;
  /** Keeps the stack of the call of the library that makes new nodes. Undefined: each node captures its own. */
  readonly stack?: CapturedStack | undefined;
  /** A scalar. If it is true in a run, tensors that are assigned to keep their contents. */
  readonly skipsUpdatesIf: Node | null;
  /** The group that updates belong to, of which a run makes either all or none. */
  readonly updateGroup: UpdateGroup | null;
  /** Says which part of its initial value a new parameter keeps. */
  readonly keepPart: KeepPart | null;
  /** What new parameters become for which no dtype is given. Null: f32. */
  readonly newParameters: ParameterFormat | null;
  /** The number of this rank's part of the batch. Null where all ranks draw the same random numbers. */
  readonly batchPart: number | null;
  /** This rank's coordinates in the regions that work on parts, outermost first. */
  readonly coordinates: readonly number[];
  /** The part of a sequence that a forward pass is given. Null: it has whole sequences. */
  readonly sequencePart: SequencePart | null;
}

let scope: Scope = {
  isGradEnabled: true,
  autocast: null,
  isInLibrary: false,
  isEvaluating: false,
  isTemporary: false,
  collectiveOrder: 'program',
  collectiveName: null,
  forwardPass: null,
  region: null,
  site: null,
  skipsUpdatesIf: null,
  updateGroup: null,
  keepPart: null,
  newParameters: null,
  batchPart: null,
  coordinates: [],
  sequencePart: null,
};

export function currentScope(): Scope {
  return scope;
}

/**
 * Runs `body` in another scope. `name` is what users call, for errors. Throws ConfigError for a body that
 * returns a promise.
 */
export function within<R>(name: string, changes: Partial<Scope>, body: () => R): R {
  return inScope(name, { ...scope, ...changes }, body);
}

/** Runs `body` in a scope, as `within` does. A scope that is made once serves many calls. */
export function inScope<R>(name: string, other: Scope, body: () => R): R {
  const before = scope;
  scope = other;
  try {
    return synchronously(name, body);
  } finally {
    scope = before;
  }
}

/** Called with true if the backward pass visited every leaf, and with false if it failed before. */
export type AfterBackward = (completed: boolean) => void;

/** The state that a rank has until it ends. */
export interface RankState {
  session: Session | null;
  streams: RandomStreams | null;
  /** The groups that were made from another group, by name. */
  readonly communicators: WeakMap<ProcessGroup, Map<string, ProcessGroup>>;
  nextNodeId: number;
  /** The number of the next walk through a graph. */
  nextWalk: number;
  /** The era of new nodes. Each recomputation of a backward pass begins another era. */
  era: number;
  /** Names of values whose axis types were declared, for errors. */
  readonly axisClaims: WeakMap<Node, string>;
  /** Whether nodes keep their call sites. */
  tracesCallSites: boolean;
  /** The bytes of small results on the device that no node's `weight` shows to the garbage collector yet. */
  unweighedBytes: number;
  /** The work that the next run must compute, whichever node is asked for. */
  readonly pending: Map<Node, PendingWork>;
  /** The number of runs that have taken pending work over and have not begun. */
  runsQueued: number;
  /** The largest `depth` of the pending work. */
  deepestPending: number;
  /** The collectives that the program has made and that have not been issued yet, by what is known of them. */
  readonly unissued: Map<Node, Unissued>;
  /** Whether the program has made a collective. */
  hasCollectives: boolean;
  /** Averages of gradients that runs keep until an update uses them up. */
  readonly keptAverages: WeakSet<Node>;
  /** Reductions that are issued if something uses them, or if the program makes another collective. */
  readonly reductionsIfUsed: Set<Node>;
  /** The settings of the updates that the program has made, by the axis whose ranks make them together. */
  readonly stepSettings: Map<string, AxisSettings>;
  /** The nodes whose memory is freed after the next run, and the name of what frees it. */
  readonly released: Map<Node, string>;
  /** The small values that the program has made since the last step and that are not computed yet, in program order. */
  readonly smallValues: Set<Node>;
  /** The callbacks for the end of the backward pass that is under way. */
  readonly afterBackward: AfterBackward[];
  /** Where the backward pass that is under way began. */
  backwardFrom?: readonly Seeded[] | undefined;
  /** The regions in which the backward pass that is under way has recomputed something. */
  readonly enteredRegions: Set<Region>;
  /** The sizes that vary, for each plan that serves several sizes. */
  readonly varyingSizes: Map<object, readonly VaryingSize[]>;
  readonly counters: { -readonly [K in keyof Statistics]: number };
  readonly timelineListeners: Set<(event: TimelineEvent) => void>;
  /** Null if nothing observes the graph. */
  observer: GraphObserver | null;
  /** What makes the node of a tensor of data, if the program is compared with another one. */
  makeLeaf?: (shape: Shape, dtype: DType, value: HostValue) => Node;
  /** What makes the plan of a strategy for a model, if the program is compared with another one. */
  makePlan?: (model: ModelSpec, strategy: Strategy) => Plan;
  /** The number of ranks that this one stands for, if the program is compared with that of these ranks. */
  standsFor?: number;
  /** The performance.now() time at which the device ended the work that was recorded last. */
  deviceIdleFrom: number;
}

/** Returns the state of a rank that has done nothing yet. */
export function newRankState(): RankState {
  return {
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
    runsQueued: 0,
    deepestPending: 0,
    unissued: new Map(),
    hasCollectives: false,
    keptAverages: new WeakSet(),
    reductionsIfUsed: new Set(),
    stepSettings: new Map(),
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
    observer: null,
    deviceIdleFrom: 0,
  };
}

/** The state of the current rank. */
export let rankState: RankState = newRankState();

/**
 * Makes another object the state of the current rank. The settings that hold while a body runs are not part of it,
 * because another rank cannot run before the body has returned.
 */
export function replaceRankState(state: RankState): void {
  rankState = state;
}

/**
 * Runs a body whose scope ends when it returns. Throws ConfigError if it returns a promise: the code after its
 * first `await` would silently run outside of the scope.
 */
export function synchronously<T>(scope: string, body: () => T): T {
  if (typeof body !== 'function') throw noBody(scope, body);
  const result = body();
  if (!isPromiseLike(result)) return result;
  // The promise is dropped, so its rejection must not count as unhandled.
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
