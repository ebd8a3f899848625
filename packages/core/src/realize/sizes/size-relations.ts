import type { RowCount } from '../../graph/node.ts';
import type { Executable, SizedProgram, Sizes } from '../../spec/backend.ts';
import type { Observation, RelatedSizes } from './related-sizes.ts';
import { type NumberedAt, SizedGraph } from '../plan/sized-graph.ts';

/** How the sizes of a program follow from a few symbols. */
export class SizeRelations {
  readonly related: RelatedSizes;

  constructor(related: RelatedSizes) {
    this.related = related;
  }

  /** The number of each symbol for a run of these sizes. Null if the relations do not hold for the sizes. */
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

  /** The sizes of a program whose symbols have these numbers. */
  sizesAt(numbers: Sizes): Observation {
    const { fixed, relationOf } = this.related;
    const values = this.#valuesOf(numbers);
    return fixed.map((size, place) => values[relationOf[place] ?? -1] ?? size);
  }

  /**
   * Makes the graph for all sizes. `numbered` makes the graph for given sizes. The numbers of rows that the run
   * computes are additional symbols after those of the relations. `compile` throws NotSizedError if the backend cannot
   * compile a program for all sizes. Throws NotSizedError if the graph has several structures.
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
        case 'difference':
          values.push(at(relation.one) - at(relation.other) + relation.addend);
          break;
        default:
          relation satisfies never;
      }
    }
    return values;
  }
}
