import { isHeldAt } from '@shardwise/core/extend';
import { keptGradient, otherUpdates, type Programs, sharedBatch } from './compare-programs.ts';
import { beforeIn, differenceOf, type Tolerances } from './differ.ts';
import type { Finding, Verification } from './finding.ts';
import { hintOf } from './hints.ts';
import { expectedOutput, outputPieces } from './outputs.ts';
import { indexOf, partOfWhole, placesInWhole } from './parts.ts';
import { type Elements, keyOf, partOf, type RankRecord, type RecordedValue } from './records.ts';
import { recordsOfParts } from './whole-batch.ts';

/** The runs that are compared. */
export interface Runs extends Programs {
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
  /** The outputs of each rank, by outputKey. */
  readonly #outputs: readonly ReadonlyMap<string, readonly RecordedValue[]>[];
  readonly #notCompared = new Set<string>();
  #compared = 0;

  constructor(runs: Runs) {
    this.#runs = runs;
    this.#byRank = runs.ranks.map(
      ({ values }) => new Map(values.map((value) => [keyOf(value), value])),
    );
    this.#outputs = runs.ranks.map(({ values }) =>
      Map.groupBy(
        values.filter(({ kind }) => kind === 'output'),
        outputKey,
      ),
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
    const other = sharedBatch(this.#runs, step) ?? otherUpdates(this.#runs, step);
    if (other !== null) return other;
    const ofStep = this.#runs.one.values.filter((value) => value.step === step);
    const before = ofStep.filter(({ kind }) => kind === 'output' || kind === 'loss');
    const after = ofStep.filter(({ kind }) => kind !== 'output' && kind !== 'loss');
    return this.#firstOf(before) ?? this.#withKept(step) ?? this.#firstOf(after);
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
      ranks: [...new Set(different.map(({ pair: { rank } }) => rank))],
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
      const right = partOfWhole(one.elements, one.shape, layout, record.places);
      const expected =
        one.kind === 'parameter' ? this.#updated(one, value, right, record, rank) : right;
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

  /**
   * What a rank should have after an update, from what it had before: it has rounded earlier updates in another way, so
   * `right`, which one rank has, is not what this update makes of its values.
   */
  #updated(
    one: RecordedValue,
    value: RecordedValue,
    right: Elements,
    { places }: RankRecord,
    rank: number,
  ): Elements {
    const had = beforeIn(this.#byRank[rank] ?? new Map(), value);
    const oneHad = this.#runs.tolerances.beforeOf(one);
    const layout = value.whole?.layout;
    if (had === null || oneHad === null || layout === undefined) return right;
    const before = partOfWhole(oneHad, one.shape, layout, places);
    return Float32Array.from(
      right.keys(),
      (at) => Number(had[at]) + (Number(right[at]) - Number(before[at])),
    );
  }

  /** The elements that a rank has of a whole parameter. */
  #ownOf(one: RecordedValue, rank: number, whole: Elements): Elements {
    const value = this.#byRank[rank]?.get(keyOf(one));
    const record = this.#runs.ranks[rank];
    const layout = value?.whole?.layout;
    if (record === undefined || layout === undefined) return whole;
    return partOfWhole(whole, one.shape, layout, record.places);
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
    const { ranks } = this.#runs;
    const key = outputKey(one);
    const ofRanks = this.#outputs.map((outputs) => ofMicrobatch(one, outputs.get(key) ?? []));
    const ofParts = recordsOfParts(ranks).map((first) =>
      ofRanks.filter((_, rank) => isSamePart(ranks[rank], first)).flat(),
    );
    const pieces = outputPieces(ofParts);
    return ranks.flatMap((record, rank): readonly Pair[] => {
      if (one.part !== null && partOf(record).part !== one.part) return [];
      return (ofRanks[rank] ?? []).flatMap((value) => {
        const expected = expectedOutput(one, record, value, pieces);
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
    const had =
      one.kind === 'parameter'
        ? beforeIn(this.#byRank[rank] ?? new Map(), one)
        : (this.#byRank[rank]?.get(keyOf({ ...one, step: one.step - 1 }))?.elements ?? null);
    if (had !== null) {
      suspects.push({ elements: had, meaning: 'it is still the value of the step before' });
    }
    return suspects;
  }

  /** A gradient that was not cleared, with what the plan does to it. */
  #withKept(step: number): Finding | null {
    const finding = keptGradient(this.#runs, step);
    const value = this.#runs.one.values.find(
      ({ kind, name }) => kind === 'gradient' && name === finding?.tensor,
    );
    return finding && value ? { ...finding, ...this.#about(value) } : finding;
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

/** A key of an output that is the same for all parts and microbatches of a pass. */
function outputKey({ name, step, call }: RecordedValue): string {
  return JSON.stringify([name, step, call]);
}

/** The outputs that are rows of a value: those of its microbatch, if one rank had this microbatch of all parts. */
function ofMicrobatch(
  { part, microbatch }: RecordedValue,
  outputs: readonly RecordedValue[],
): readonly RecordedValue[] {
  if (part !== null || microbatch === null) return outputs;
  return outputs
    .filter((output) => output.microbatch === microbatch)
    .map((output) => ({ ...output, microbatch: null }));
}

function isSamePart(a: RankRecord | undefined, b: RankRecord): boolean {
  return a !== undefined && partOf(a).part === partOf(b).part;
}

function layoutOfOutput(axes: readonly string[]): string {
  return axes.length === 0 ? 'replicated' : `rows over ${axes.join(', ')}`;
}

function kindOf({ kind, step }: RecordedValue): Finding['kind'] {
  return step === 0 ? 'initial' : kind;
}
