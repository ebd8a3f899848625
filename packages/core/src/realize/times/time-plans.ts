import type { Node } from '../../graph/node.ts';
import { observeGraph } from '../../graph/observe-graph.ts';
import type { Executable } from '../../spec/backend.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { PlanStep } from '../steps/plan-step.ts';
import { addPlanTimer } from './add-plan-timer.ts';
import { PlanLayout, type PlannedNodes, type ProgramPart } from './program-parts.ts';

/** What is told of the runs of plans. Times are milliseconds. */
export interface PlanListener {
  /** A run begins, which computes these nodes. */
  begin(nodes: readonly Node[]): void;
  /** The device has computed a part of a program. `nodes` are those of the run. */
  computed(part: ProgramPart, nodes: readonly Node[], durationMs: number): void;
  /** A program has taken this much longer than its parts. */
  between(durationMs: number): void;
  /** The run has waited for a message that computation did not hide. `node` has sent it, or is of its bucket. */
  waited(node: Node | undefined, byteLength: number, durationMs: number): void;
}

/** What is known of the runs of a plan at certain sizes. */
interface KnownPlan {
  readonly sizes: string;
  readonly layout: PlanLayout;
  /** The parts of each program, by the number of its step. */
  readonly programs: Map<number, readonly ProgramPart[]>;
}

/** What is known of plans at the sizes of their latest runs. */
const known = new WeakMap<ExecutionPlan, KnownPlan>();

/**
 * Tells `listener` of what plans do, and of the time of each part, until the returned function is called. The plans run
 * as without it: the clock is read between the parts of their programs.
 */
export function timePlans(listener: PlanListener): () => void {
  let run: TimedRun | null = null;
  const endTimer = addPlanTimer((plan, nodes, sizes) => {
    const timed = new TimedRun(plan, nodes, knownPlan(plan, nodes, sizes), listener);
    run = timed;
    listener.begin(nodes.computed);
    return { ...plan, steps: plan.steps.map((step, index) => timed.timed(step, index)) };
  });
  const end = observeGraph({
    gradient: () => {},
    backward: () => {},
    remade: () => {},
    update: () => {},
    pool: () => {},
    run: () => {
      run?.end();
      run = null;
    },
  });
  return () => {
    endTimer();
    end();
  };
}

function knownPlan(plan: ExecutionPlan, nodes: PlannedNodes, sizes: readonly number[]): KnownPlan {
  const key = sizes.join();
  const found = known.get(plan);
  if (found?.sizes === key) return found;
  const made = {
    sizes: key,
    layout: new PlanLayout(plan, nodes, plan.shapes?.at(sizes) ?? null),
    programs: new Map(),
  };
  known.set(plan, made);
  return made;
}

type ComputeStep = Extract<PlanStep, { kind: 'compute' }>;

/** Takes the times of one run. */
class TimedRun {
  readonly #plan: ExecutionPlan;
  readonly #nodes: PlannedNodes;
  readonly #known: KnownPlan;
  readonly #listener: PlanListener;
  /** For each value of a message that was started, when the message had arrived. */
  readonly #arrived = new Map<number, number>();
  /** The number of the next step, and when the step before it ended. */
  #next = 0;
  #endedMs = performance.now();

  constructor(plan: ExecutionPlan, nodes: PlannedNodes, ofPlan: KnownPlan, listener: PlanListener) {
    this.#plan = plan;
    this.#nodes = nodes;
    this.#known = ofPlan;
    this.#listener = listener;
  }

  timed(step: PlanStep, index: number): PlanStep {
    if (step.kind === 'compute') return { ...step, executable: this.#timedProgram(step, index) };
    if (step.kind !== 'start') return step;
    return {
      ...step,
      start: async (run, startMs) => {
        this.#comeTo(index);
        const { done } = await step.start(run, startMs);
        this.#endedMs = performance.now();
        const arrive = async (): Promise<void> => {
          await done;
          for (const value of step.values) this.#arrived.set(value, performance.now());
        };
        return { done: arrive() };
      },
    };
  }

  end(): void {
    this.#comeTo(this.#plan.steps.length);
  }

  #timedProgram(step: ComputeStep, index: number): Executable {
    const { executable } = step;
    const { temporaries } = executable;
    const { programs, layout } = this.#known;
    const { computed } = this.#nodes;
    const whole = (): readonly ProgramPart[] => {
      const parts = programs.get(index) ?? layout.wholeOf(step, computed);
      programs.set(index, parts);
      return parts;
    };
    return {
      ...(temporaries && { temporaries }),
      run: async (inputs, outputs, options) => {
        this.#comeTo(index);
        const startMs = performance.now();
        const told: (readonly number[])[] = [];
        const times: number[] = [];
        const onComputed = options?.onComputed;
        // The device may say its time when the graph is gone.
        const onDevice = onComputed === undefined ? null : whole();
        await executable.run(inputs, outputs, {
          ...options,
          onPart: (instructions, durationMs) => {
            told.push(instructions);
            times.push(durationMs);
          },
          ...(onDevice !== null && {
            onComputed: (durationMs: number) => {
              onComputed?.(durationMs);
              this.#tell(onDevice, [durationMs], durationMs);
            },
          }),
        });
        this.#endedMs = performance.now();
        if (onDevice !== null) return;
        const totalMs = this.#endedMs - startMs;
        if (told.length === 0) return this.#tell(whole(), [totalMs], totalMs);
        const before = programs.get(index);
        const parts =
          before?.length === told.length ? before : layout.partsOf(step, told, computed);
        programs.set(index, parts);
        this.#tell(parts, times, totalMs);
      },
      dispose: () => executable.dispose(),
    };
  }

  /** Tells of the parts of a program with their times. `totalMs` is the time of all of it. */
  #tell(parts: readonly ProgramPart[], times: readonly number[], totalMs: number): void {
    let restMs = totalMs;
    for (const [at, part] of parts.entries()) {
      const durationMs = times[at] ?? 0;
      restMs -= durationMs;
      this.#listener.computed(part, this.#nodes.computed, durationMs);
    }
    if (restMs > 0) this.#listener.between(restMs);
  }

  /**
   * The run comes to a step. The steps since the last one that was timed are waits: each lasted until its message had
   * arrived.
   */
  #comeTo(index: number): void {
    const { steps } = this.#plan;
    const { layout } = this.#known;
    for (const step of steps.slice(this.#next, index)) {
      if (step.kind !== 'wait') continue;
      const arrivedMs = Math.max(...step.values.map((id) => this.#arrived.get(id) ?? 0));
      if (arrivedMs <= this.#endedMs) continue;
      const bytes = step.values.map((id) => layout.bytesOfMessage(id));
      const node = this.#nodes.computed[layout.ownerOf(step.values[0] ?? -1)];
      const byteLength = bytes.reduce((sum, each) => sum + each, 0);
      this.#listener.waited(node, byteLength, arrivedMs - this.#endedMs);
      this.#endedMs = arrivedMs;
    }
    this.#next = index + 1;
  }
}
