import { rankState } from '../../ambient.ts';
import { placeOf } from '../../graph/call-site.ts';
import type { Node, RowCount } from '../../graph/node.ts';
import type { Backend, Executable, Program, SizedProgram, Sizes } from '../../spec/backend.ts';
import { BackendError, OutOfMemoryError } from '../../spec/errors.ts';
import { count, record } from '../../timeline.ts';
import type { Subgraph } from '../collect/collect.ts';
import { declaredSizes } from '../sizes/declared-sizes.ts';
import { type ExecutionPlan, makePlan, PlanFailure } from '../plan/execution-plan.ts';
import { allRuns, narrower, type Narrowing, runsLike } from '../sizes/narrowing.ts';
import { NotSizedError } from '../plan/not-sized-error.ts';
import { rowCountsOf } from '../values/row-symbols.ts';
import type { Observation } from '../sizes/related-sizes.ts';
import type { SizeRelations } from '../sizes/size-relations.ts';
import { programKey } from './program-key.ts';
import { type Signature, Signatures } from '../signature/signature.ts';
import { PlanChurn } from './plan-churn.ts';
import { tooLarge } from './too-large.ts';
import { varyingSizesOf } from '../sizes/varying-sizes.ts';
import { Interned, type Key, KeyMap } from '../signature/words.ts';

/** The number of plans that a rank keeps. The least recently used plan is dropped first. */
export const PLAN_LIMIT = 128;

/** The most parameters and texts that signatures keep. If there are more, all plans and texts are dropped. */
const TEXT_LIMIT = 100_000;

/** A compiled program, and the number of plans that run it. */
interface SharedProgram {
  readonly key: Key;
  readonly executable: Executable;
  plans: number;
}

/** The plans for subgraphs of one structure, which differ in numbers and sizes. */
interface Family {
  readonly key: Key;
  /** The numbers of the constants in the first run. */
  readonly numbers: Float64Array;
  /** For each constant, 1 if its number was another one in some run, else 0. */
  readonly varying: Uint8Array;
  /** The sizes of different runs. */
  readonly observations: Observation[];
  readonly entries: Entry[];
  /** The number of times that no plan for several sizes could be made. */
  failures: number;
  /** Whether memory did not suffice for larger sizes than those seen. Plans then have no room for larger sizes. */
  isTight: boolean;
  /** The runs for which plans can be made. */
  narrowing: Narrowing;
}

/** A plan, and the runs that it takes. */
export interface Entry {
  readonly family: Family;
  /** The relations between the sizes that the plan takes. Null if it only takes `sizes`. */
  readonly relations: SizeRelations | null;
  readonly sizes: Observation;
  /** The largest value of each number of rows that a run computes. */
  readonly limits: readonly number[];
  /** For each constant, 1 if its number is an input of the plan, else 0. */
  readonly varying: Uint8Array;
  readonly plan: ExecutionPlan;
  readonly programs: readonly SharedProgram[];
}

/** A run that has no plan yet. */
interface NewRun {
  readonly subgraph: Subgraph;
  readonly outputs: readonly Node[];
  readonly family: Family;
  readonly sizes: Observation;
  readonly rowCounts: readonly RowCount[];
}

/** A plan for a run. */
export interface FoundPlan {
  readonly entry: Entry;
  readonly plan: ExecutionPlan;
  /** For each constant, 1 if its number is an input of the plan, else 0. */
  readonly varying: Uint8Array;
  /** The numbers of the plan's symbols in this run. */
  readonly sizes: Sizes;
}

/** The number of runs whose sizes are kept to see which sizes vary. They are the first runs and the latest ones. */
const MAX_OBSERVATIONS = 8;

/** After this many failures, each size of a structure has a plan of its own. */
const MAX_FAILURES = 3;

/**
 * The plans of a rank, by structure. A structure has one plan. If a number changes from run to run, it becomes an input
 * of the plan. If a size changes, it becomes a symbol. At most `planLimit` plans are kept. Executables that no plan
 * runs any more are disposed of.
 */
export class PlanCache {
  readonly #backend: Backend;
  #interned = new Interned();
  #signatures = new Signatures(this.#interned);
  readonly #families = new KeyMap<Family>();
  /** All entries in the order of their last use. */
  readonly #used = new Set<Entry>();
  readonly #programs = new KeyMap<SharedProgram>();
  readonly #churn: PlanChurn;

  /** `warn` is called once if nearly every run makes a plan of its own. */
  constructor(backend: Backend, warn: (message: string) => void) {
    this.#backend = backend;
    this.#churn = new PlanChurn(PLAN_LIMIT, warn);
    rankState.varyingSizes.clear();
  }

  /**
   * The plan of a subgraph with some outputs. The search for it began at `start`. Throws PlanFailure.
   */
  async planFor(subgraph: Subgraph, outputs: readonly Node[], start: number): Promise<FoundPlan> {
    if (this.#interned.size > TEXT_LIMIT) this.#clear();
    const signature = this.#signatures.of(subgraph, outputs);
    const family = this.#familyOf(signature);
    const found = this.#find(family, signature);
    const facts = { detail: `${subgraph.computed.length} nodes` };
    count('graphMs', record('graph', 'look up the plan', start, facts));
    if (found !== null && takesNumbers(found.entry, signature.numbers)) {
      this.#used.delete(found.entry);
      this.#used.add(found.entry);
      this.#churn.found();
      return foundPlan(found.entry, found.sizes);
    }
    const compileStart = performance.now();
    const made = await this.#make(subgraph, outputs, family, signature, found?.entry ?? null);
    count('compileMs', record('graph', 'make a plan', compileStart, facts));
    await this.#churn.made(subgraph);
    return made;
  }

  /** The family of a structure. A new family is only kept when it gets its first entry. */
  #familyOf({ key, numbers }: Signature): Family {
    const known = this.#families.get(key);
    if (known !== undefined) return known;
    // The arrays of a signature are copied, because the next signature reuses them.
    return {
      key: { hash: key.hash, words: key.words.slice() },
      numbers: numbers.slice(),
      varying: new Uint8Array(numbers.length),
      observations: [],
      entries: [],
      failures: 0,
      isTight: false,
      narrowing: allRuns,
    };
  }

  /** The entry that takes the sizes of a run, and the numbers of its symbols. */
  #find(
    { entries }: Family,
    { sizes }: Signature,
  ): { readonly entry: Entry; readonly sizes: Sizes } | null {
    for (const entry of entries) {
      const numbers = numbersIn(entry, sizes);
      if (numbers !== null) return { entry, sizes: numbers };
    }
    return null;
  }

  /** Makes the plan of a run. `known` is the entry that takes its sizes but not its numbers. Null if there is none. */
  async #make(
    subgraph: Subgraph,
    outputs: readonly Node[],
    family: Family,
    signature: Signature,
    known: Entry | null,
  ): Promise<FoundPlan> {
    const sizes = signature.sizes.slice();
    signature.numbers.forEach((value, index) => {
      if (!Object.is(family.numbers[index], value)) family.varying[index] = 1;
    });
    observe(family, sizes);
    const run = { subgraph, outputs, family, sizes, rowCounts: rowCountsOf(subgraph) };
    const relations = known === null ? await this.#relate(run) : known.relations;
    const entry = await this.#entry(run, relations);
    count('plansMade', 1);
    if (entry.relations !== null) {
      count('sizedPlansMade', 1);
      const { related } = entry.relations;
      const varying = varyingSizesOf(subgraph, related, family.observations);
      rankState.varyingSizes.set(entry, varying);
    }
    // The new entry replaces those whose sizes it takes.
    const replaced = family.entries.filter(
      (each) => each === known || numbersIn(entry, each.sizes) !== null,
    );
    for (const each of replaced) this.#drop(each);
    this.#keep(entry);
    const numbers = numbersIn(entry, sizes);
    if (numbers === null)
      throw new RangeError('a plan does not take the sizes that it was made of');
    return foundPlan(entry, numbers);
  }

  /** The relations of the sizes of a structure if they are known to vary, else null. Their code is loaded on demand. */
  async #relate({ family, subgraph, sizes, rowCounts }: NewRun): Promise<SizeRelations | null> {
    const { failures, isTight, narrowing } = family;
    if (this.#backend.compileSized === undefined || failures >= MAX_FAILURES) return null;
    const { limits, leafSizes } = declaredSizes(subgraph);
    const observations = runsLike(sizes, family.observations, narrowing);
    const isSeenToVary = observations.length > 1 || rowCounts.length > 0;
    if (!isSeenToVary && limits.size === 0) return null;
    const { relateSizes } = await import('../sizes/relate-sizes.ts');
    return relateSizes(observations, { limits, leafSizes, isTight, ...narrowing }) ?? null;
  }

  /**
   * Makes an entry for all sizes with these relations, or only for the sizes of the run if no plan can be made for
   * others. If there is no memory for larger sizes, the plan has no room for sizes that were not declared.
   */
  async #entry(run: NewRun, relations: SizeRelations | null): Promise<Entry> {
    const { subgraph, outputs, family, sizes, rowCounts } = run;
    const programs: SharedProgram[] = [];
    const varying = family.varying.slice();
    if (relations === null && rowCounts.length > 0) throw rowsError(rowCounts);
    try {
      const plan = await makePlan(subgraph, outputs, this.#backend, {
        varying,
        compile: (program) => this.#compile(program, programs),
        sizedGraph:
          relations &&
          ((numbered) =>
            relations.graphOf(rowCounts, numbered, (program) =>
              this.#compileSized(program, programs),
            )),
      });
      const limits = rowCounts.map(({ max }) => max);
      return { family, relations, sizes, limits, varying, plan, programs };
    } catch (error) {
      this.#release(programs);
      if (error instanceof NotSizedError) {
        const narrowed = narrower(family.narrowing);
        if (narrowed === null) family.failures++;
        else family.narrowing = narrowed;
        return this.#entry(run, narrowed === null ? null : await this.#relate(run));
      }
      const cause = error instanceof PlanFailure ? error.cause : error;
      if (!(cause instanceof OutOfMemoryError) || !tighten(family, relations, cause)) throw error;
      return this.#entry(run, await this.#relate(run));
    }
  }

  /**
   * Call this if memory did not suffice to run a plan. Returns whether the next plan for these sizes will need less
   * memory, because it has no room for larger sizes. Throws OutOfMemoryError if the larger sizes were declared.
   */
  shrink({ entry }: FoundPlan, cause: OutOfMemoryError): boolean {
    const { family, relations } = entry;
    if (!tighten(family, relations, cause)) return false;
    this.#drop(entry);
    // The next entry needs what the family knows of its sizes.
    this.#register(family);
    return true;
  }

  #register(family: Family): void {
    if (this.#families.get(family.key) === undefined) this.#families.add(family.key, family);
  }

  #keep(entry: Entry): void {
    const { family } = entry;
    family.entries.push(entry);
    // The family is new, or it was dropped with its last entry.
    this.#register(family);
    this.#used.add(entry);
    const [oldest] = this.#used;
    if (this.#used.size > PLAN_LIMIT && oldest !== undefined) this.#drop(oldest);
  }

  #compile(program: Program, users: SharedProgram[]): Promise<Executable> {
    const key = programKey([program], [], this.#interned);
    return this.#shared(key, users, () => this.#backend.compile(program));
  }

  /** Compiles a program for all sizes. Throws NotSizedError if the backend cannot do this. */
  async #compileSized(program: SizedProgram, users: SharedProgram[]): Promise<Executable> {
    const { symbols } = program;
    const largest = symbols.map(({ seen }) => seen);
    const smaller = largest.map((size, index) => size - 1 - index);
    const programs = [largest, smaller].map((sizes) => program.at(sizes));
    const key = programKey(programs, symbols, this.#interned);
    return this.#shared(key, users, async () => {
      const executable = await this.#backend.compileSized?.(program);
      if (executable === undefined) throw new NotSizedError('the backend cannot compile it');
      return executable;
    });
  }

  async #shared(
    key: Key,
    users: SharedProgram[],
    compile: () => Promise<Executable>,
  ): Promise<Executable> {
    let shared = this.#programs.get(key);
    if (shared === undefined) {
      shared = { key, executable: await compile(), plans: 0 };
      this.#programs.add(key, shared);
      count('programsCompiled', 1);
    }
    shared.plans++;
    users.push(shared);
    return shared.executable;
  }

  #drop(entry: Entry): void {
    this.#used.delete(entry);
    rankState.varyingSizes.delete(entry);
    const { family } = entry;
    family.entries.splice(family.entries.indexOf(entry), 1);
    if (family.entries.length === 0) this.#families.delete(family.key);
    this.#release(entry.programs);
    count('plansDropped', 1);
  }

  #release(programs: readonly SharedProgram[]): void {
    for (const shared of programs) {
      if (--shared.plans > 0) continue;
      this.#programs.delete(shared.key);
      shared.executable.dispose();
      count('programsDisposed', 1);
    }
  }

  #clear(): void {
    for (const entry of this.#used) this.#drop(entry);
    this.#families.clear();
    this.#interned = new Interned();
    this.#signatures = new Signatures(this.#interned);
  }
}

/**
 * The numbers of an entry's symbols. For numbers of rows that the run computes, it is the largest value. Null if the
 * entry does not take the sizes.
 */
function numbersIn(entry: Entry, sizes: Observation): Sizes | null {
  const { relations, limits } = entry;
  if (relations === null) return sameSizes(entry.sizes, sizes) ? [] : null;
  const numbers = relations.numbersOf(sizes);
  return numbers === null ? null : [...numbers, ...limits];
}

function rowsError(rowCounts: readonly RowCount[]): BackendError {
  const lines = rowCounts.map(({ count }) => `${count.op}${placeOf(count.site)}`);
  return new BackendError(
    {
      asked: `rows whose number the run computes (${lines.join(', ')})`,
      found: 'no program for any number of rows can be made on this device',
      todo: 'Read the number first (await count.item()) and slice by it',
    },
    { rowCounts: rowCounts.length },
  );
}

function foundPlan(entry: Entry, sizes: Sizes): FoundPlan {
  return { entry, plan: entry.plan, varying: entry.varying, sizes };
}

function takesNumbers({ family, varying }: Entry, numbers: Float64Array): boolean {
  for (let i = 0; i < numbers.length; i++) {
    if (varying[i] !== 1 && !Object.is(family.numbers[i], numbers[i])) return false;
  }
  return true;
}

/**
 * Has plans made without room for larger sizes than those seen. Returns whether plans become smaller by this. Throws
 * OutOfMemoryError if the larger sizes were declared.
 */
function tighten(
  family: Family,
  relations: SizeRelations | null,
  cause: OutOfMemoryError,
): boolean {
  if (relations === null || family.isTight) return false;
  const declared = relations.related.limits.filter((limit) => limit !== null);
  if (declared.length > 0) throw tooLarge(declared, cause);
  family.isTight = true;
  return true;
}

function sameSizes(a: Observation, b: Observation): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function observe({ observations }: Family, sizes: Observation): void {
  if (observations.some((known) => sameSizes(known, sizes))) return;
  observations.push(sizes);
  if (observations.length > MAX_OBSERVATIONS) observations.splice(MAX_OBSERVATIONS / 2, 1);
}
