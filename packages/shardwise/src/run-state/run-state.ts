import { formatDuration } from '../text/format.ts';
import type {
  Fact,
  GenerationMessage,
  MembershipMessage,
  RunHost,
  RunMessage,
  StepReport,
  Timeline,
} from './run-message.ts';
import type { NamedMetrics } from './named-metrics.ts';
import type { RankProfile } from './rank-profile.ts';
import { mergeSummaries, type StepSummary, summarize } from './summary.ts';

/** What is known of a run before it starts. */
export interface RunHead {
  /** The command as the user would type it again. Absent if a page started the ranks. */
  readonly command?: string;
  readonly script: string;
  /** The directory of the run's files. Absent if a page started the ranks. */
  readonly runDirectory?: string;
  readonly worldSize: number;
  readonly startMs: number;
  /** The program that runs the ranks, and its version. */
  readonly engine: string;
  /** How the ranks reach each other. Absent until it is known. */
  readonly transport?: string;
  /** The hosts in the order of their ranks. Absent until they are known. */
  readonly hosts?: readonly RunHost[];
}

/** A restart of the ranks. */
interface Restart {
  readonly reason: string;
  readonly worldSize: number;
  readonly resumeDirectory: string | undefined;
}

/** All data that the terminal, the log lines and the report show. It is computed from messages. */
export interface RunState {
  readonly head: RunHead;
  readonly totalSteps: number | undefined;
  /** The last step that every rank has reported. */
  readonly latest: StepSummary | undefined;
  readonly history: History;
  /** The last reported figure of each metric, by name, in the order in which the names were first reported. */
  readonly metrics: NamedMetrics;
  /** Averages of the milliseconds, tokens and samples of one step. Later steps weigh more. */
  readonly recent:
    | { readonly stepMs: number; readonly tokens: number; readonly samples: number }
    | undefined;
  readonly processBytes: number | undefined;
  readonly facts: Readonly<Record<string, Fact>>;
  readonly checkpoint: { readonly step: number; readonly directory: string } | undefined;
  readonly stopping: boolean;
  readonly restarts: readonly Restart[];
  /** The exit code of each rank. Undefined while the rank runs. */
  readonly exitCodes: readonly (number | undefined)[];
  /** The timelines that ranks have recorded of some steps. */
  readonly timelines: readonly Timeline[];
  /** The latest profile of each rank that has made one. */
  readonly profiles: ReadonlyMap<number, RankProfile>;
  /** The reports of each step that some ranks have yet to report. */
  readonly pending: ReadonlyMap<number, readonly StepReport[]>;
}

/** The weight of a new step in the smoothed figures. */
const SMOOTHING = 0.1;
/**
 * The greatest number of steps that wait for reports of other ranks. A launcher that was halted may read this many
 * steps of one rank before it reads those of the next one. Ranks that differ by more steps do not run in step.
 */
const MAX_PENDING_STEPS = 4096;

export function initialRunState(head: RunHead): RunState {
  return {
    head,
    totalSteps: undefined,
    latest: undefined,
    history: emptyHistory,
    metrics: {},
    recent: undefined,
    processBytes: undefined,
    facts: {},
    checkpoint: undefined,
    stopping: false,
    restarts: [],
    exitCodes: Array.from({ length: head.worldSize }, () => undefined),
    timelines: [],
    profiles: new Map(),
    pending: new Map(),
  };
}

/**
 * Returns the states that a message leads to, one after the other. Each has at most one step more than the one before, so
 * that whoever follows them misses none.
 */
export function statesAfter(before: RunState, message: RunMessage): readonly RunState[] {
  const over = message.kind === 'membership' ? statesOver(before, message) : [];
  return [...over, reduceRun(over.at(-1) ?? before, message)];
}

export function reduceRun(state: RunState, message: RunMessage): RunState {
  switch (message.kind) {
    case 'step':
      return reduceStep(state, message);
    case 'timeline':
      return { ...state, timelines: [...state.timelines, message] };
    case 'facts':
      return { ...state, facts: { ...state.facts, ...message.facts } };
    case 'checkpoint':
      return { ...state, checkpoint: { step: message.step, directory: message.directory } };
    case 'profile':
      return { ...state, profiles: new Map(state.profiles).set(message.rank, message) };
    case 'process-memory':
      return { ...state, processBytes: message.bytes };
    case 'stopping':
      return { ...state, stopping: true };
    case 'generation':
      return reduceGeneration(state, message);
    case 'membership':
      return reduceMembership(state, message);
    case 'exit':
      return reduceExit(state, message);
    default:
      return message satisfies never;
  }
}

function reduceExit(
  state: RunState,
  { rank, code }: Extract<RunMessage, { readonly kind: 'exit' }>,
): RunState {
  // A rank of more hosts than the run had when this message was sent is not known.
  if (rank >= state.exitCodes.length) return state;
  return { ...state, exitCodes: state.exitCodes.with(rank, code) };
}

function reduceGeneration(state: RunState, message: GenerationMessage): RunState {
  const { worldSize, transport, hosts, reason, resumeDirectory } = message;
  return {
    ...state,
    head: { ...state.head, worldSize, transport, hosts },
    exitCodes: Array.from({ length: worldSize }, () => undefined),
    pending: new Map(),
    restarts:
      reason === undefined
        ? state.restarts
        : [...state.restarts, { reason, worldSize, resumeDirectory }],
  };
}

/**
 * Notes that other ranks go on. A step that is part of their state is over, also if a rank was lost before it has
 * reported it. Steps after it are done again.
 */
function reduceMembership(state: RunState, message: MembershipMessage): RunState {
  const { worldSize, reason } = message;
  const after = statesOver(state, message).at(-1) ?? state;
  return {
    ...after,
    head: { ...state.head, worldSize },
    exitCodes: Array.from({ length: worldSize }, () => undefined),
    pending: new Map(),
    restarts: [...state.restarts, { reason, worldSize, resumeDirectory: undefined }],
  };
}

/**
 * The states with one more of the steps that are over, and that not all ranks have reported. A host that was cut off may
 * have reported none for a while.
 */
function statesOver(before: RunState, { step }: MembershipMessage): readonly RunState[] {
  const over = [...before.pending]
    .filter(([pending]) => pending <= step && pending > (before.latest?.step ?? -1))
    .toSorted(([a], [b]) => a - b);
  let state = before;
  return over.map(([number, reports]) => {
    const pending = new Map(state.pending);
    pending.delete(number);
    state = addStep({ ...state, pending }, reports);
    return state;
  });
}

function reduceStep(state: RunState, report: StepReport): RunState {
  const { worldSize } = state.head;
  const { rank, step } = report;
  // A worker that was started again by itself repeats steps that other workers have yet to reach.
  const others = (state.pending.get(step) ?? []).filter((each) => each.rank !== rank);
  const ofStep = [...others, report].toSorted((a, b) => a.rank - b.rank);
  const totalSteps = report.totalSteps ?? state.totalSteps;
  const pending = new Map(state.pending);
  if (ofStep.length < worldSize) {
    pending.set(report.step, ofStep);
    if (pending.size > MAX_PENDING_STEPS) pending.delete(Math.min(...pending.keys()));
    return { ...state, totalSteps, pending };
  }
  pending.delete(report.step);
  return addStep({ ...state, totalSteps, pending }, ofStep);
}

/** Adds a step by its reports, which are ordered by rank. */
function addStep(state: RunState, ofStep: readonly StepReport[]): RunState {
  const latest = summarize(ofStep);
  // A run that continues from a checkpoint repeats the steps after it.
  const isAgain = state.latest !== undefined && latest.step <= state.latest.step;
  const history = isAgain ? dropFrom(state.history, latest.step) : state.history;
  return {
    ...state,
    latest,
    history: appendStep(history, latest),
    metrics: { ...state.metrics, ...latest.metrics },
    timelines: isAgain ? state.timelines.filter(({ step }) => step < latest.step) : state.timelines,
    recent: smooth(state, latest),
  };
}

/** Updates the averages. The first step compiles and allocates, so it says nothing about the following steps. */
function smooth({ recent, history }: RunState, latest: StepSummary): RunState['recent'] {
  const { stepMs, tokens, samples = 0 } = latest;
  if (recent === undefined || history.points.length === 1) return { stepMs, tokens, samples };
  return {
    stepMs: recent.stepMs + SMOOTHING * (stepMs - recent.stepMs),
    tokens: recent.tokens + SMOOTHING * (tokens - recent.tokens),
    samples: recent.samples + SMOOTHING * (samples - recent.samples),
  };
}

/** Returns the tokens per second over the last steps. Returns undefined while it is unknown. */
export function tokensPerSecond({ recent }: RunState): number | undefined {
  return recent && perSecond(recent.tokens, recent.stepMs);
}

/** Returns the samples per second over the last steps. Returns undefined while it is unknown. */
export function samplesPerSecond({ recent }: RunState): number | undefined {
  return recent && perSecond(recent.samples, recent.stepMs);
}

function perSecond(amount: number, stepMs: number): number | undefined {
  return amount === 0 || stepMs === 0 ? undefined : (amount / stepMs) * 1000;
}

/** Returns `ETA 3m 12s`, and at the end `in 1h 02m`. Returns undefined while the time is unknown. */
export function timeLeft({ head, recent, latest, totalSteps }: RunState): string | undefined {
  if (recent === undefined || latest === undefined || totalSteps === undefined) return undefined;
  const steps = totalSteps - latest.step;
  if (steps > 0) return `ETA ${formatDuration(steps * recent.stepMs)}`;
  return `in ${formatDuration(latest.endMs - head.startMs)}`;
}

/** A whole run in a limited number of points. Each point covers at most `stride` steps. */
interface History {
  readonly points: readonly StepSummary[];
  readonly stride: number;
}

const MAX_POINTS = 2048;

const emptyHistory: History = { points: [], stride: 1 };

/** Appends a step. Each step has a point of its own until there are more than 2048. Then neighbours are averaged. */
function appendStep(history: History, summary: StepSummary): History {
  const { points, stride } = history;
  const last = points.at(-1);
  const points2 =
    last !== undefined && last.steps < stride
      ? [...points.slice(0, -1), mergeSummaries(last, summary)]
      : [...points, summary];
  if (points2.length <= MAX_POINTS) return { points: points2, stride };
  const halved: StepSummary[] = [];
  for (let index = 0; index < points2.length; index += 2) {
    const [first, second] = points2.slice(index, index + 2);
    if (first !== undefined) halved.push(second ? mergeSummaries(first, second) : first);
  }
  return { points: halved, stride: stride * 2 };
}

/** Returns the history without the points that reach to `step` or beyond it. */
function dropFrom({ points, stride }: History, step: number): History {
  return { points: points.filter((point) => point.step < step), stride };
}
