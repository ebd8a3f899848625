import { sameShape } from '../../base/shape.ts';
import type { RowCount } from '../../graph/node.ts';
import type { Executable, Program, SizedProgram, Sizes, SizeSymbol } from '../../spec/backend.ts';
import type { Shape } from '../../spec/dtype.ts';
import { rejectDegenerateSizes } from '../../base/degenerate-sizes.ts';
import { Sized } from '../../base/sized.ts';
import type { ExpandOptions } from '../values/expand.ts';
import { NotSizedError } from './not-sized-error.ts';
import { sameData } from '../signature/plain-data.ts';
import type { Sources } from '../segments/sources.ts';
import type { Numbering, ValueGraph } from '../values/values.ts';

/** Makes the graph for given sizes and numbers of rows. */
export type NumberedAt = (options: Required<Pick<ExpandOptions, 'sizes' | 'rows'>>) => Numbering;

/** The symbols of a graph, and the function that compiles its programs. */
export interface Sizing {
  readonly symbols: readonly SizeSymbol[];
  /** The numbers of rows that the run computes. Their symbols come after the others. */
  readonly rowCounts: readonly RowCount[];
  /** Throws NotSizedError if the backend cannot compile a program for all sizes. */
  readonly compile: (program: SizedProgram) => Promise<Executable>;
}

/** A number of rows that is large enough not to be special. */
const USUAL_ROWS = 8;

/** A graph in which some sizes vary. */
export class SizedGraph {
  /** The shapes of the values. */
  readonly shapes: Sized<readonly Shape[]>;
  readonly #sizing: Sizing;
  readonly #symbols: readonly SizeSymbol[];
  readonly #sized: Sized<Numbering>;
  readonly #varies: readonly boolean[];

  /** Throws NotSizedError if the graph has several structures. */
  constructor(sizing: Sizing, numberedAt: (numbers: Sizes) => Numbering) {
    this.#sizing = sizing;
    // A symbol for rows can be tried with any number, also above its limit, but not with small ones, which are special.
    const rows = sizing.rowCounts.map(({ max }) => ({
      max,
      seen: Math.max(max, USUAL_ROWS),
      spacing: 1,
    }));
    const symbols = [...sizing.symbols, ...rows];
    const sized = Sized.of(
      symbols,
      rejectDegenerateSizes(symbols, numberedAt, ({ graph }) => graph.values),
    );
    if (sized === undefined) throw new NotSizedError('a graph has several structures');
    const shapes = Sized.of(symbols, (sizes): readonly Shape[] =>
      sized.at(sizes).graph.values.map(({ shape }) => shape),
    );
    if (shapes === undefined) throw new NotSizedError('a graph has several structures');
    const smallest = shapes.at(symbols.map(() => 2));
    this.#varies = shapes.most().map((shape, id) => !sameShape(shape, smallest[id] ?? []));
    this.#symbols = symbols;
    this.#sized = sized;
    this.shapes = shapes;
  }

  /** The graph in which each size is as large as it can be. */
  get largest(): Numbering {
    return this.#sized.most();
  }

  /** Whether a size of a value varies. */
  varies(value: number): boolean {
    return this.#varies[value] === true;
  }

  /** The symbol of a number of rows, and the largest value that it may have. */
  symbolOf(rowCount: number): { readonly symbol: number; readonly max: number } {
    const { symbols, rowCounts } = this.#sizing;
    return { symbol: symbols.length + rowCount, max: rowCounts[rowCount]?.max ?? 0 };
  }

  /** Returns a function that gives the numbers of rows on which a value, or a value that it reads, depends. */
  rowDependence(sources: Sources): (value: number) => readonly number[] {
    const { symbols, rowCounts } = this.#sizing;
    if (rowCounts.length === 0) return () => [];
    const base = this.#symbols.map(({ seen }) => seen);
    const valuesAt = (sizes: Sizes): ValueGraph['values'] => this.#sized.at(sizes).graph.values;
    const usual = valuesAt(base);
    const differing = rowCounts.map((_, index) => {
      const place = symbols.length + index;
      const other = valuesAt(base.with(place, (base[place] ?? 0) + 1));
      return usual.map(({ shape, params }, id) => {
        const { [id]: same } = other;
        return !sameShape(shape, same?.shape ?? []) || !sameData(params, same?.params);
      });
    });
    return (value) =>
      [...differing.keys()].filter((index) =>
        [value, ...sources.of(value)].some((id) => differing[index]?.[id] === true),
      );
  }

  /** Compiles a program of the graph for all sizes. Undefined if no size varies in it. Throws NotSizedError. */
  async compile(programOf: (graph: ValueGraph) => Program): Promise<Executable | undefined> {
    const symbols = this.#symbols;
    const program = Sized.of(symbols, (sizes) => programOf(this.#sized.at(sizes).graph));
    if (program === undefined) throw new NotSizedError('a program has several structures');
    if (program.isFixed) return undefined;
    return this.#sizing.compile({ symbols, at: (sizes) => program.at(sizes) });
  }
}
