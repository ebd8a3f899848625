import { statistics, type Statistics } from '@shardwise/core';
import {
  type Backend,
  currentSession,
  GraphPlaces,
  type Module,
  printing,
  subscribe,
  timePlans,
} from '@shardwise/core/extend';
import type { RankMessage } from '../run-state/run-message.ts';
import type { HostLoad, ProfileWait, RankProfile, Roofline } from '../run-state/rank-profile.ts';
import { percent } from './advice.ts';
import { ProgramModules } from './module-paths.ts';
import { profileLines } from './profile-lines.ts';
import type { ProfilePlan } from './profile-options.ts';
import { stepsText } from './summarize.ts';
import { WorkRows } from './work-rows.ts';

export interface StepProfilerOptions {
  readonly rank: number;
  readonly plan: ProfilePlan;
  readonly roofline: Roofline;
  /** Returns the load of the host, if it is known. */
  readonly loadOf?: () => HostLoad | undefined;
  readonly send: (message: RankMessage) => void;
}

/** What is recorded while the profiler is on. */
interface Recording {
  readonly places: GraphPlaces;
  readonly rows: WorkRows;
  readonly end: () => void;
  readonly before: Statistics;
  readonly startMs: number;
  /** The numbers of the steps that were recorded. */
  readonly steps: number[];
  /** The time for which the script waited for data. */
  dataMs: number;
  /** When the last step ended, and the time in products until then. */
  lastMs: number;
  lastProductsMs: number;
}

/**
 * Profiles the steps of a rank that its plan asks for. A step ends where the script reports it. Between these steps, it
 * only knows which modules there are.
 */
export class StepProfiler {
  readonly #options: StepProfilerOptions;
  readonly #modules: ProgramModules;
  #recording: Recording | null = null;
  /** The number of steps and of profiles so far, and the numbers of the first and the last step. */
  #reported = 0;
  #cycles = 0;
  #saved: Promise<void> = Promise.resolve();
  #first: number | undefined;
  #last: number | undefined;

  constructor(options: StepProfilerOptions) {
    this.#options = options;
    this.#modules = new ProgramModules((module) => this.#recording?.places.follow(module));
    // A script may number its steps from 0 or from 1. Its first report says which.
    const firsts = [0, 1].map((step) => options.plan.actionOf({ index: 0, step }));
    if (firsts.some((action) => action !== 'none')) this.#begin();
  }

  /** Ends a step, and begins the next one. Returns figures of the step. */
  step(step: number): Readonly<Record<string, number>> {
    const { actionOf } = this.#options.plan;
    const index = this.#reported++;
    this.#first ??= step;
    this.#last = step;
    const ended = actionOf({ index, step });
    const next = actionOf({ index: index + 1, step: step + 1 });
    const recorded = ended === 'record' || ended === 'recordAndSave' ? this.#recording : null;
    const figures = recorded === null ? {} : figuresOf(recorded, step);
    const goesOn = ended === 'record' && (next === 'record' || next === 'recordAndSave');
    if (recorded !== null && !goesOn) this.#save(recorded);
    if (recorded === null || !goesOn) {
      this.#end();
      if (next !== 'none') this.#begin();
    }
    return figures;
  }

  /** Saves what was recorded so far. Says so if nothing was. Throws what onTraceReady has thrown later than in a step. */
  async close(): Promise<void> {
    const recording = this.#recording;
    if (recording !== null && recording.steps.length > 0) this.#save(recording);
    this.#end();
    this.#modules.close();
    await this.#saved;
    const { rank, plan } = this.#options;
    if (this.#cycles > 0 || rank !== 0) return;
    const found =
      this.#first === undefined
        ? 'the script has reported no step; call context.report(), or step() of profiler.profile(), in each'
        : `the script has reported steps ${this.#first} to ${this.#last}`;
    console.warn(`shardwise: nothing was profiled. It was to be ${plan.asked}, but ${found}`);
  }

  #begin(): void {
    const places = new GraphPlaces();
    for (const module of this.#modules.all()) places.follow(module);
    const rows = new WorkRows(places, this.#options.roofline);
    const ends = [
      timePlans(rows),
      subscribe(({ category, durationMs }) => {
        if (category === 'data') recording.dataMs += durationMs;
      }),
      () => places.close(),
    ];
    const recording: Recording = {
      places,
      rows,
      end: () => ends.forEach((end) => end()),
      before: statistics(),
      startMs: performance.now(),
      steps: [],
      dataMs: 0,
      lastMs: performance.now(),
      lastProductsMs: 0,
    };
    this.#recording = recording;
  }

  #end(): void {
    this.#recording?.end();
    this.#recording = null;
  }

  #save(recording: Recording): void {
    const { backend } = currentSession();
    const { rank, roofline, loadOf } = this.#options;
    const ended = {
      rank,
      roofline,
      cycle: this.#cycles++,
      timing: backend.timing,
      load: loadOf?.(),
      after: statistics(),
      pathOf: this.#modules.paths(),
    };
    if (backend.timing !== 'device') return this.#tell(profileOf(recording, ended));
    // The device says how long it computed when a value is read.
    this.#saved = this.#saved
      .then(() => readAnything(backend))
      .then(() => this.#tell(profileOf(recording, ended)));
    // close() waits for it, and throws its error.
    this.#saved.catch(() => {});
  }

  #tell(profile: RankProfile): void {
    const { rank, plan, send } = this.#options;
    send(profile);
    if (rank === 0) {
      const share = percent(profile.productsMs / profile.stepMs);
      const facts = { 'time in products': `${share} of ${stepsText(profile)}, by their profile` };
      send({ kind: 'facts', rank, facts });
    }
    plan.onTraceReady?.(
      Object.defineProperties(
        { ...profile },
        printing<RankProfile>((self) => profileLines([self]).join('\n')),
      ),
    );
  }
}

/** Waits until the device has computed what it was given. */
async function readAnything(backend: Backend): Promise<void> {
  const buffer = backend.alloc(4);
  try {
    await backend.read(buffer);
  } finally {
    backend.free(buffer);
  }
}

/** What is known when the steps of a profile have ended. */
interface Ended extends Pick<RankProfile, 'rank' | 'cycle' | 'roofline' | 'timing' | 'load'> {
  readonly after: Statistics;
  readonly pathOf: (module: Module) => string;
}

function profileOf(
  { rows, before, startMs, steps, dataMs, lastMs }: Recording,
  { after, pathOf, ...ofRank }: Ended,
): RankProfile {
  const { betweenMs, computeMs, waitMs: planWaitMs, ...totals } = rows.totals;
  // Ranks also wait outside of plans, as the stages of a pipeline do for each other.
  const waitMs = Math.max(planWaitMs, after.communicationMs - before.communicationMs);
  const stepMs = lastMs - startMs;
  const graphMs = after.graphMs - before.graphMs;
  const compileMs = after.compileMs - before.compileMs;
  const known = computeMs + betweenMs + waitMs + dataMs + graphMs + compileMs;
  return {
    kind: 'profile',
    ...ofRank,
    from: steps[0] ?? 0,
    to: steps.at(-1) ?? 0,
    steps: steps.length,
    stepMs,
    computeMs,
    betweenMs,
    waitMs,
    ...totals,
    dataMs,
    graphMs,
    compileMs,
    hostMs: Math.max(0, stepMs - known),
    rows: rows.rows(pathOf),
    waits: [...rows.waits(pathOf), ...outsideOfPlans(waitMs - planWaitMs)],
  };
}

/** The waits of a rank that no message of a plan explains. A microsecond is only the reading of clocks. */
function outsideOfPlans(ms: number): readonly ProfileWait[] {
  if (ms < 0.001) return [];
  return [{ op: 'messages of stages', module: '', phase: 'forward', count: 0, ms, bytes: 0 }];
}

/** Ends a step of a recording, and returns its figures. */
function figuresOf(recording: Recording, step: number): Readonly<Record<string, number>> {
  const nowMs = performance.now();
  const { productsMs } = recording.rows.totals;
  const share = (productsMs - recording.lastProductsMs) / (nowMs - recording.lastMs);
  recording.steps.push(step);
  recording.lastMs = nowMs;
  recording.lastProductsMs = productsMs;
  // A device that says its times later has said those of other steps by now.
  const { timing } = currentSession().backend;
  return timing === undefined ? { 'utilization/products': share } : {};
}
