import type { RowCount } from '../graph/node.ts';
import type { SizedProgram, Executable } from '../spec/backend.ts';
import type { Sizes } from '../spec/sized.ts';
import type { Observation, RelatedSizes } from './related-sizes.ts';
import { type NumberedAt, SizedGraph } from './sized-graph.ts';

/** How the sizes of a program follow from a few symbols. */
export class SizeRelations {
  readonly related: RelatedSizes;

  constructor(related: RelatedSizes) {
    this.related = related;
  }

  /** The number of each symbol for a run of these sizes; null where the relations do not give the sizes. */
  numbersOf(sizes: Observation): Sizes | null {
    const { symbols, places, relationOf, fixed } = this.related;
    const numbers = places.map((place) => sizes[place] ?? 0);
    for (const [index, { max, seen, spacing }] of symbols.entries()) {
      const number = numbers[index] ?? 0;
      if (number > max || (number - seen) % spacing !== 0) return null;
    }
    const values = this.#valuesOf(numbers);
    for (let place = 0; place < sizes.length; place++) {
      const index = relationOf[place] ?? -1;
      if (sizes[place] !== (index < 0 ? fixed[place] : values[index])) return null;
    }
    return numbers;
  }

  /** The sizes of a program where its symbols have these numbers. */
  sizesAt(numbers: Sizes): Observation {
    const { fixed, relationOf } = this.related;
    const values = this.#valuesOf(numbers);
    return fixed.map((size, place) => values[relationOf[place] ?? -1] ?? size);
  }

  /**
   * A graph at any sizes, which `numbered` gives at some; numbers of rows that the run computes are symbols behind those of the relations.
   * `compile` throws NotSizedError where the backend cannot. Throws NotSizedError.
   */
  graphOf(
    rowCounts: readonly RowCount[],
    numbered: NumberedAt,
    compile: (program: SizedProgram) => Promise<Executable>,
  ): SizedGraph {
    const { symbols } = this.related;
    return new SizedGraph({ symbols, rowCounts, compile }, (numbers) =>
      numbered({
        sizes: this.sizesAt(numbers.slice(0, symbols.length)),
        rows: numbers.slice(symbols.length),
      }),
    );
  }

  #valuesOf(numbers: Sizes): readonly number[] {
    const values: number[] = [];
    const at = (index: number): number => values[index] ?? Number.NaN;
    for (const relation of this.related.relations) {
      switch (relation.kind) {
        case 'symbol':
          values.push(numbers[relation.symbol] ?? Number.NaN);
          break;
        case 'linear':
          values.push(relation.factor * at(relation.of) + relation.addend);
          break;
        case 'product':
          values.push(relation.factor * at(relation.one) * at(relation.other));
          break;
        case 'sum':
          values.push(at(relation.one) + at(relation.other) + relation.addend);
          break;
        default:
          relation satisfies never;
      }
    }
    return values;
  }
}
