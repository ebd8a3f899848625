import type { Node } from '../graph/node.ts';
import type { Backend, Executable, Program } from '../spec/backend.ts';
import { count, record } from '../timeline.ts';
import type { Subgraph } from './collect.ts';
import { makePlan, type ExecutionPlan } from './execution-plan.ts';
import { sameWords, type Signature, Signatures } from './signature.ts';
import { PlanChurn } from './plan-churn.ts';
import { structureKey } from './structure-key.ts';

/** Plans that a rank keeps; the ones used longest ago go first. */
export const planLimit = 128;

/** Texts of parameters and shapes that signatures keep; with one more, all plans and texts go. */
const textLimit = 100_000;

/** A compiled program, and how many plans run it. */
interface SharedProgram {
  readonly executable: Executable;
  plans: number;
}

interface Entry {
  readonly hash: number;
  readonly words: Int32Array;
  /** The numbers of the constants when the plan was made. */
  readonly numbers: Float64Array;
  /** For each constant 1 where its number is an input of the plan, else 0. */
  readonly varying: Uint8Array;
  readonly plan: ExecutionPlan;
  readonly programs: readonly string[];
}

/**
 * The plans of a rank by structure. A structure has one plan: a number that turns out to change from run to
 * run becomes an input of it. At most `planLimit` are kept; executables that no plan runs any more are
 * disposed of.
 */
export class PlanCache {
  readonly #backend: Backend;
  #signatures = new Signatures();
  readonly #entries = new Map<number, Entry[]>();
  /** All entries in the order of their last use. */
  readonly #used = new Set<Entry>();
  readonly #programs = new Map<string, SharedProgram>();
  readonly #churn: PlanChurn;

  /** `warn` is told once of a program whose plans serve one run each. */
  constructor(backend: Backend, warn: (message: string) => void) {
    this.#backend = backend;
    this.#churn = new PlanChurn(planLimit, warn);
  }

  /**
   * The plan of a subgraph with some outputs, and of which constants it takes the numbers as inputs. The
   * search for it began at `start`. Throws PlanFailure.
   */
  async planFor(
    subgraph: Subgraph,
    outputs: readonly Node[],
    start: number,
  ): Promise<{ readonly plan: ExecutionPlan; readonly varying: Uint8Array }> {
    if (this.#signatures.textCount > textLimit) this.#clear();
    const signature = this.#signatures.of(subgraph, outputs);
    const known = this.#find(signature);
    count('graphMs', record('graph', 'look up the plan', start));
    if (known !== undefined && takes(known, signature.numbers)) {
      this.#used.delete(known);
      this.#used.add(known);
      this.#churn.found();
      return known;
    }
    const compileStart = performance.now();
    const entry = await this.#make(subgraph, outputs, signature, known);
    count('compileMs', record('graph', 'make a plan', compileStart));
    this.#churn.made(subgraph);
    if (known !== undefined) this.#drop(known);
    this.#entries.set(entry.hash, [...(this.#entries.get(entry.hash) ?? []), entry]);
    this.#used.add(entry);
    const [oldest] = this.#used;
    if (this.#used.size > planLimit && oldest !== undefined) this.#drop(oldest);
    return entry;
  }

  #find({ hash, words }: Signature): Entry | undefined {
    return this.#entries.get(hash)?.find((entry) => sameWords(entry.words, words));
  }

  async #make(
    subgraph: Subgraph,
    outputs: readonly Node[],
    signature: Signature,
    known: Entry | undefined,
  ): Promise<Entry> {
    // The signature's arrays are used again for the next one.
    const { hash } = signature;
    const words = signature.words.slice();
    const numbers = signature.numbers.slice();
    const varying = known?.varying.slice() ?? new Uint8Array(numbers.length);
    if (known !== undefined) {
      numbers.forEach((value, index) => {
        if (!isTaken(known, index, value)) varying[index] = 1;
      });
    }
    const programs: string[] = [];
    try {
      const plan = await makePlan(subgraph, outputs, this.#backend, {
        varying,
        compile: (program) => this.#compile(program, programs),
      });
      count('plansMade', 1);
      return { hash, words, numbers, varying, plan, programs };
    } catch (error) {
      this.#release(programs);
      throw error;
    }
  }

  async #compile(program: Program, users: string[]): Promise<Executable> {
    const key = structureKey(program);
    let shared = this.#programs.get(key);
    if (shared === undefined) {
      shared = { executable: await this.#backend.compile(program), plans: 0 };
      this.#programs.set(key, shared);
      count('programsCompiled', 1);
    }
    shared.plans++;
    users.push(key);
    return shared.executable;
  }

  #drop(entry: Entry): void {
    this.#used.delete(entry);
    const others = this.#entries.get(entry.hash)?.filter((other) => other !== entry) ?? [];
    if (others.length > 0) this.#entries.set(entry.hash, others);
    else this.#entries.delete(entry.hash);
    this.#release(entry.programs);
    count('plansDropped', 1);
  }

  #release(programs: readonly string[]): void {
    for (const key of programs) {
      const shared = this.#programs.get(key);
      if (shared === undefined || --shared.plans > 0) continue;
      this.#programs.delete(key);
      shared.executable.dispose();
      count('programsDisposed', 1);
    }
  }

  #clear(): void {
    for (const entry of this.#used) this.#drop(entry);
    this.#signatures = new Signatures();
  }
}

function takes(entry: Entry, numbers: Float64Array): boolean {
  for (let i = 0; i < numbers.length; i++) {
    if (!isTaken(entry, i, numbers[i] ?? 0)) return false;
  }
  return true;
}

function isTaken({ numbers, varying }: Entry, index: number, value: number): boolean {
  return varying[index] === 1 || Object.is(numbers[index], value);
}
