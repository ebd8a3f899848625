import { formatDuration } from '../text/format.ts';
import { appendStep, dropFrom, emptyHistory, type History } from './history.ts';
import type { Fact, RoundMessage, RunMessage, StepReport, Timeline } from './message.ts';
import type { NamedMetrics } from './named-metrics.ts';
import { summarize, type StepSummary } from './summary.ts';

/** What is known of a run before it starts. */
export interface RunHead {
  /** The command as the user would type it again; none where a page started the ranks. */
  readonly command?: string;
  readonly script: string;
  /** Where the run's files are; none where a page started the ranks. */
  readonly runDirectory?: string;
  readonly worldSize: number;
  readonly startMs: number;
  /** What runs the ranks, and its version. */
  readonly engine: string;
  /** How the ranks reach each other, once that is known. */
  readonly transport?: string;
}

/** The ranks were started again. */
export interface Restart {
  readonly reason: string;
  readonly worldSize: number;
  readonly resumeDirectory: string | undefined;
}

/** All that the terminal, the log lines and the report show; folded from messages. */
export interface RunState {
  readonly head: RunHead;
  readonly totalSteps: number | undefined;
  /** The last step that every rank has reported. */
  readonly latest: StepSummary | undefined;
  readonly history: History;
  /** The last reported figure of each metric, by name, in the order in which the names came. */
  readonly metrics: NamedMetrics;
  /** Averages over the last steps, in which later ones weigh more: milliseconds and tokens of one step. */
  readonly recent: { readonly stepMs: number; readonly tokens: number } | undefined;
  readonly processBytes: number | undefined;
  readonly facts: Readonly<Record<string, Fact>>;
  readonly checkpoint: { readonly step: number; readonly directory: string } | undefined;
  readonly stopping: boolean;
  readonly restarts: readonly Restart[];
  /** The exit code of each rank; undefined while it runs. */
  readonly exitCodes: readonly (number | undefined)[];
  /** Steps of which some rank has recorded what it did when. */
  readonly timelines: readonly Timeline[];
  /** The reports of each step that other ranks have yet to report. */
  readonly pending: ReadonlyMap<number, readonly StepReport[]>;
}

/** What a new step adds to the smoothed figures. */
const SMOOTHING = 0.1;
/**
 * What a launcher that was halted finds of one rank before it reads the next: what a channel holds.
 * Ranks that differ by more steps do not run in step.
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
    pending: new Map(),
  };
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
    case 'process-memory':
      return { ...state, processBytes: message.bytes };
    case 'stopping':
      return { ...state, stopping: true };
    case 'round':
      return reduceRound(state, message);
    case 'exit':
      return { ...state, exitCodes: state.exitCodes.with(message.rank, message.code) };
    default:
      return message satisfies never;
  }
}

function reduceRound(state: RunState, message: RoundMessage): RunState {
  const { worldSize, transport, reason, resumeDirectory } = message;
  return {
    ...state,
    head: { ...state.head, worldSize, transport },
    exitCodes: Array.from({ length: worldSize }, () => undefined),
    pending: new Map(),
    restarts:
      reason === undefined
        ? state.restarts
        : [...state.restarts, { reason, worldSize, resumeDirectory }],
  };
}

function reduceStep(state: RunState, report: StepReport): RunState {
  const { worldSize } = state.head;
  const { rank, step } = report;
  // A worker that was started again by itself does steps once more that others have yet to do.
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
  const latest = summarize(ofStep);
  // A run that goes on from a checkpoint does the steps after it once more.
  const isAgain = state.latest !== undefined && latest.step <= state.latest.step;
  const history = isAgain ? dropFrom(state.history, latest.step) : state.history;
  return {
    ...state,
    totalSteps,
    latest,
    history: appendStep(history, latest),
    metrics: { ...state.metrics, ...latest.metrics },
    timelines: isAgain ? state.timelines.filter(({ step }) => step < latest.step) : state.timelines,
    recent: smooth(state, latest),
    pending,
  };
}

/** The first step compiles and allocates: it says nothing of the next ones. */
function smooth({ recent, history }: RunState, latest: StepSummary): RunState['recent'] {
  const { stepMs, tokens } = latest;
  if (recent === undefined || history.points.length === 1) return { stepMs, tokens };
  return {
    stepMs: recent.stepMs + SMOOTHING * (stepMs - recent.stepMs),
    tokens: recent.tokens + SMOOTHING * (tokens - recent.tokens),
  };
}

/** Tokens per second over the last steps; undefined as long as it is not known. */
export function tokensPerSecond({ recent }: RunState): number | undefined {
  if (recent === undefined || recent.tokens === 0 || recent.stepMs === 0) return undefined;
  return (recent.tokens / recent.stepMs) * 1000;
}

/** `ETA 3m 12s`, and at the end `in 1h 02m`; undefined while unknown. */
export function timeLeft({ head, recent, latest, totalSteps }: RunState): string | undefined {
  if (recent === undefined || latest === undefined || totalSteps === undefined) return undefined;
  const steps = totalSteps - latest.step;
  if (steps > 0) return `ETA ${formatDuration(steps * recent.stepMs)}`;
  return `in ${formatDuration(latest.endMs - head.startMs)}`;
}
