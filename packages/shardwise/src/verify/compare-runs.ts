import { isHeldAt } from '@shardwise/core/extend';
import { differenceOf, type Tolerances } from './differ.ts';
import type { Finding, Verification } from './finding.ts';
import { hintOf } from './hints.ts';
import { expectedOutput } from './outputs.ts';
import { indexOf, partOfWhole, placesInWhole } from './parts.ts';
import { type Elements, keyOf, partOf, type RankRecord, type RecordedValue } from './records.ts';
import { recordsOfParts } from './whole-batch.ts';

/** The runs that are compared. */
export interface Runs {
  /** By rank. */
  readonly ranks: readonly RankRecord[];
  readonly one: RankRecord;
  readonly tolerances: Tolerances;
  /** The number of steps that every rank was to make. */
  readonly steps: number;
}

/** What a rank has, and what it should have, of one value. */
interface Pair {
  readonly rank: number;
  readonly found: Elements;
  readonly expected: Elements;
  /** Returns the index in the whole tensor of an element. */
  readonly indexOf: (at: number) => readonly number[];
}

/** Returns the first difference between the run on many ranks and the one on one rank. */
export function compareRuns(runs: Runs): Verification {
  return new Comparison(runs).result();
}

class Comparison {
  readonly #runs: Runs;
  readonly #byRank: readonly ReadonlyMap<string, RecordedValue>[];
  readonly #notCompared = new Set<string>();
  #compared = 0;

  constructor(runs: Runs) {
    this.#runs = runs;
    this.#byRank = runs.ranks.map(
      ({ values }) => new Map(values.map((value) => [keyOf(value), value])),
    );
  }

  result(): Verification {
    const { ranks, steps } = this.#runs;
    let finding: Finding | null = null;
    for (let step = 0; step <= steps && finding === null; step++) finding = this.#inStep(step);
    return {
      finding,
      strategy: ranks[0]?.plan.strategy ?? '',
      ranks: ranks.length,
      steps,
      compared: this.#compared,
      notCompared: [...this.#notCompared],
    };
  }

  #inStep(step: number): Finding | null {
    const shared = this.#sharedBatch(step);
    if (shared !== null) return shared;
    const updates = this.#otherUpdates(step);
    if (updates !== null) return updates;
    const ofStep = this.#runs.one.values.filter((value) => value.step === step);
    const before = ofStep.filter(({ kind }) => kind === 'output' || kind === 'loss');
    const after = ofStep.filter(({ kind }) => kind !== 'output' && kind !== 'loss');
    return this.#firstOf(before) ?? this.#keptGradient(step) ?? this.#firstOf(after);
  }

  #firstOf(values: readonly RecordedValue[]): Finding | null {
    for (const value of values) {
      const found = this.#compare(value);
      if (found !== null) return found;
    }
    return null;
  }

  #compare(one: RecordedValue): Finding | null {
    const pairs = this.#pairsOf(one);
    if (pairs.length === 0) {
      this.#notCompared.add(`${one.kind} of ${one.name || 'the model'}`);
      return null;
    }
    this.#compared++;
    const tolerance = this.#runs.tolerances.of(one);
    const slack = this.#runs.tolerances.slackOf(one);
    const different = pairs.flatMap((pair) => {
      const own = slack === null ? null : this.#ownOf(one, pair.rank, slack);
      const difference = differenceOf(pair.found, pair.expected, tolerance, own);
      return difference === null ? [] : [{ pair, difference }];
    });
    // Stages of a pipeline keep the buffers of their own modules; the others are as they were at the start.
    const isOfStage = one.kind === 'buffer' && (this.#runs.ranks[0]?.plan.microbatches ?? 0) > 0;
    const [first] = different;
    if (first === undefined || (isOfStage && different.length < pairs.length)) return null;
    const { pair, difference } = first;
    const about = this.#about(one);
    return {
      ...about,
      kind: kindOf(one),
      step: one.step,
      rank: pair.rank,
      ranks: different.map(({ pair: { rank } }) => rank),
      index: pair.indexOf(difference.at),
      found: difference.found,
      expected: difference.expected,
      tolerance,
      hint: this.#isMeanRight(one, pairs, tolerance)
        ? 'the mean over the ranks is right, and each has its own: it was not reduced'
        : hintOf({
            found: pair.found,
            expected: pair.expected,
            tolerance,
            parts: this.#parts,
            others: this.#suspects(one, pair),
          }),
    };
  }

  /** Whether ranks have wholes of which only the mean is right. */
  #isMeanRight(one: RecordedValue, pairs: readonly Pair[], tolerance: number): boolean {
    const isWhole = pairs.every(({ found }) => found.length === one.elements.length);
    if (!isWhole || pairs.length < 2 || (one.kind !== 'gradient' && one.kind !== 'buffer'))
      return false;
    const mean = Float32Array.from({ length: one.elements.length }, (_, at) => {
      const sum = pairs.reduce((before, { found }) => before + Number(found[at]), 0);
      return sum / pairs.length;
    });
    return differenceOf(mean, one.elements, tolerance) === null;
  }

  get #parts(): number {
    const [first] = this.#runs.ranks;
    return first === undefined ? 1 : partOf(first).parts;
  }

  #pairsOf(one: RecordedValue): readonly Pair[] {
    if (one.kind === 'loss') return this.#lossPair(one);
    if (one.kind === 'output') return this.#outputPairs(one);
    const key = keyOf(one);
    return this.#runs.ranks.flatMap((record, rank): readonly Pair[] => {
      const value = this.#byRank[rank]?.get(key);
      if (value === undefined) return this.#missing(one, record, rank);
      const { elements: found, whole } = value;
      if (whole === null || one.kind === 'buffer') {
        return [{ rank, found, expected: one.elements, indexOf: (at) => indexOf(at, one.shape) }];
      }
      // A value that each rank has for itself is compared as if all had the same.
      const { layout } = whole;
      const expected = partOfWhole(one.elements, one.shape, layout, record.places);
      return [
        {
          rank,
          found,
          expected,
          indexOf: (at) => {
            const places = placesInWhole(one.shape, layout, record.places);
            return indexOf(places[at] ?? 0, one.shape);
          },
        },
      ];
    });
  }

  /** The elements that a rank has of a whole parameter. */
  #ownOf(
    { kind, name, step, call, part, shape }: RecordedValue,
    rank: number,
    whole: Elements,
  ): Elements {
    const value = this.#byRank[rank]?.get(keyOf({ kind, name, step, call, part }));
    const record = this.#runs.ranks[rank];
    const layout = value?.whole?.layout;
    if (record === undefined || layout === undefined) return whole;
    return partOfWhole(whole, shape, layout, record.places);
  }

  /** A gradient that a rank does not have counts as zeros. */
  #missing(one: RecordedValue, record: RankRecord, rank: number): readonly Pair[] {
    if (one.kind !== 'gradient') return [];
    const kept = record.values.find(({ kind, name }) => kind === 'initial' && name === one.name);
    const layout = kept?.whole?.layout;
    if (layout === undefined) return [];
    if (!isHeldAt(layout, (axis) => record.places[axis] ?? { size: 1, rank: 0 })) return [];
    const expected = partOfWhole(one.elements, one.shape, layout, record.places);
    const found = new Float32Array(expected.length);
    return [{ rank, found, expected, indexOf: (at) => indexOf(at, one.shape) }];
  }

  /** The loss of one rank is the mean of those of the parts. */
  #lossPair(one: RecordedValue): readonly Pair[] {
    const key = keyOf(one);
    const records = recordsOfParts(this.#runs.ranks);
    const values = records.flatMap((record) => {
      const value = this.#byRank[this.#runs.ranks.indexOf(record)]?.get(key);
      return value === undefined ? [] : [value];
    });
    if (values.length < records.length) return [];
    const found = Float32Array.from({ length: one.elements.length }, (_, at) => {
      const sum = values.reduce((before, { elements }) => before + Number(elements[at]), 0);
      return sum / values.length;
    });
    return [{ rank: 0, found, expected: one.elements, indexOf: (at) => indexOf(at, one.shape) }];
  }

  #outputPairs(one: RecordedValue): readonly Pair[] {
    const key = keyOf({ ...one, part: null });
    const valueOf = (record: RankRecord): RecordedValue | undefined =>
      this.#byRank[this.#runs.ranks.indexOf(record)]?.get(key);
    const ofParts = recordsOfParts(this.#runs.ranks).map(valueOf);
    return this.#runs.ranks.flatMap((record, rank): readonly Pair[] => {
      const value = valueOf(record);
      if (value === undefined || (one.part !== null && partOf(record).part !== one.part)) return [];
      const expected = expectedOutput(one, record, value, ofParts);
      if (expected === null) return [];
      return [
        {
          rank,
          found: value.elements,
          expected: expected.elements,
          indexOf: (at) =>
            indexOf(at, value.shape).map((each, dim) =>
              dim === expected.dim ? each + expected.start : each,
            ),
        },
      ];
    });
  }

  /** What the rank may have instead of the right value. */
  #suspects(
    one: RecordedValue,
    { rank, found }: Pair,
  ): readonly { elements: Elements; meaning: string }[] {
    const { ranks } = this.#runs;
    const key = keyOf(one);
    const value = this.#byRank[rank]?.get(key);
    const record = ranks[rank];
    const layout = value?.whole?.layout;
    if (record === undefined || layout === undefined) return [];
    const suspects: { elements: Elements; meaning: string }[] = [];
    for (const [other, { places }] of ranks.entries()) {
      if (other === rank) continue;
      const elements = partOfWhole(one.elements, one.shape, layout, places);
      if (elements.length !== found.length || elements.length === one.elements.length) continue;
      suspects.push({ elements, meaning: `it is the part that rank ${other} should have` });
    }
    const earlier = this.#runs.one.values.find(
      ({ kind, name, step }) => kind === one.kind && name === one.name && step === one.step - 1,
    );
    const start = this.#runs.one.values.find(
      ({ kind, name }) => kind === 'initial' && name === one.name,
    );
    const old = one.kind === 'parameter' && one.step === 1 ? start : earlier;
    if (old !== undefined) {
      const elements = partOfWhole(old.elements, one.shape, layout, record.places);
      suspects.push({ elements, meaning: 'it is still the value of the step before' });
    }
    return suspects;
  }

  /** Ranks with different parts of the batch that read the same inputs. */
  #sharedBatch(step: number): Finding | null {
    const records = recordsOfParts(this.#runs.ranks);
    for (const [index, pass] of (records[0]?.passes ?? []).entries()) {
      if (pass.step !== step || pass.inputs.length === 0) continue;
      const seen = new Map<string, number>();
      for (const record of records) {
        const rank = this.#runs.ranks.indexOf(record);
        const inputs = record.passes[index]?.inputs.join() ?? '';
        const other = seen.get(inputs);
        seen.set(inputs, rank);
        if (other === undefined) continue;
        return {
          ...this.#noValue('batch', step, 'inputs', rank),
          ranks: [other, rank],
          hint: `rank ${rank} reads the same rows as rank ${other}: divide the data by the rank, as a DistributedSampler does`,
        };
      }
    }
    return null;
  }

  /** A rank that made another number of backward passes before an update, or of updates. */
  #otherUpdates(step: number): Finding | null {
    if (step === 0) return null;
    const expected = this.#runs.one.backwards[step - 1];
    const rank = this.#runs.ranks.findIndex(({ backwards }) => backwards[step - 1] !== expected);
    if (rank < 0 || expected === undefined) return null;
    const found = this.#runs.ranks[rank]?.backwards[step - 1];
    const hint =
      found === undefined
        ? `rank ${rank} did not make this update`
        : `rank ${rank} made ${found} backward passes before this update, and one rank ${expected}`;
    const about = this.#noValue('updates', step, 'update', rank);
    return { ...about, found: found ?? 0, expected, hint };
  }

  #keptGradient(step: number): Finding | null {
    for (const [rank, record] of this.#runs.ranks.entries()) {
      const kept = record.keptGradients.find((each) => each.step === step);
      if (kept === undefined) continue;
      const value = this.#runs.one.values.find(
        ({ kind, name }) => kind === 'gradient' && name === kept.name,
      );
      return {
        ...this.#noValue('kept gradient', step, kept.name, rank),
        ...(value === undefined ? {} : this.#about(value)),
        hint: 'the backward pass adds to the gradient of the step before: call optimizer.zeroGrad() in each step',
      };
    }
    return null;
  }

  #noValue(
    kind: Finding['kind'],
    step: number,
    tensor: string,
    rank: number,
  ): Omit<Finding, 'hint'> {
    const place = { module: '', moduleClass: this.#runs.one.classes[''] ?? '', tensor };
    const value = { index: [], found: Number.NaN, expected: Number.NaN, tolerance: 0 };
    return { kind, step, ...place, rank, ranks: [rank], ...value, layout: '', actions: [] };
  }

  #about(
    one: RecordedValue,
  ): Pick<Finding, 'module' | 'moduleClass' | 'tensor' | 'layout' | 'actions'> {
    const [record] = this.#runs.ranks;
    const isTensor = one.kind !== 'output' && one.kind !== 'loss';
    const [, model = '', path = one.name] =
      /^(model \d+: )?(.*?)(?: \(output \d+\))?$/.exec(one.name) ?? [];
    const end = path.lastIndexOf('.');
    const module = isTensor ? path.slice(0, Math.max(0, end)) : one.kind === 'loss' ? '' : path;
    const plan = record?.plan;
    const planned = plan?.parameters[path];
    const own = Object.entries(plan?.parameters ?? {}).filter(([name]) =>
      module === '' ? !name.includes('.') : name.startsWith(`${module}.`),
    );
    const ofModule = [
      ...(plan?.modules[module] ?? []),
      ...own.flatMap(([name, { actions }]) => actions.map((action) => `${name}: ${action}`)),
    ];
    const tensor = isTensor ? path : one.kind;
    const varying = one.kind === 'buffer' ? 'every rank keeps its own' : '';
    return {
      module: `${model}${module}`,
      moduleClass: this.#runs.one.classes[`${model}${module}`] ?? '',
      tensor,
      layout: planned?.layout ?? (isTensor ? varying : layoutOfOutput(plan?.batchAxes ?? [])),
      actions: isTensor ? (planned?.actions ?? []) : ofModule,
    };
  }
}

function layoutOfOutput(axes: readonly string[]): string {
  return axes.length === 0 ? 'replicated' : `rows over ${axes.join(', ')}`;
}

function kindOf({ kind, step }: RecordedValue): Finding['kind'] {
  return step === 0 ? 'initial' : kind;
}
