/** One way to compute a layer. */
export interface LayerChoice {
  readonly bytes: number;
  readonly seconds: number;
}

/** What `chooseLayerStrategies` chooses for each layer. */
export interface LayerStrategies {
  /** The number of the choice of each layer. */
  readonly choices: readonly number[];
  readonly bytes: number;
  readonly seconds: number;
}

/** The parts into which memory is divided. The bytes of choices are rounded up to parts. */
const PARTS = 2048;

/**
 * Chooses one of several ways for each layer, so that all together take the least time and fit into the memory
 * (Miao et al. 2022, "Galvatron", dynamic programming over layers and memory). `switchSeconds` is the time between a
 * layer with choice `from` and the next with choice `to`. Null: nothing fits.
 */
export function chooseLayerStrategies(
  layers: readonly (readonly LayerChoice[])[],
  memoryBytes: number,
  switchSeconds: (from: number, to: number) => number = () => 0,
): LayerStrategies | null {
  const part = memoryBytes / PARTS;
  const partsOf = ({ bytes }: LayerChoice): number =>
    bytes === 0 ? 0 : Math.ceil(bytes / part - 1e-9);
  if (layers.length === 0) return { choices: [], bytes: 0, seconds: 0 };
  if (memoryBytes <= 0) return null;
  // Rows are choices of the last layer so far, columns the memory that is used.
  let best: Float64Array[] = [];
  const before: Int32Array[][] = [];
  for (const [index, choices] of layers.entries()) {
    const from: Int32Array[] = [];
    const next = choices.map((choice, to) => {
      const seconds = new Float64Array(PARTS + 1).fill(Infinity);
      const chosen = new Int32Array(PARTS + 1).fill(-1);
      const needed = partsOf(choice);
      for (let used = needed; used <= PARTS; used++) {
        if (index === 0) {
          seconds[used] = used === needed ? choice.seconds : Infinity;
          continue;
        }
        for (const [last, row] of best.entries()) {
          const sum = (row[used - needed] ?? Infinity) + switchSeconds(last, to) + choice.seconds;
          if (sum < (seconds[used] ?? Infinity)) {
            seconds[used] = sum;
            chosen[used] = last;
          }
        }
      }
      from.push(chosen);
      return seconds;
    });
    best = next;
    before.push(from);
  }
  return traceBack(layers, best, before, partsOf);
}

/** Follows the choices from the last layer to the first. */
function traceBack(
  layers: readonly (readonly LayerChoice[])[],
  best: readonly Float64Array[],
  before: readonly (readonly Int32Array[])[],
  partsOf: (choice: LayerChoice) => number,
): LayerStrategies | null {
  let end = { choice: -1, used: 0, seconds: Infinity };
  for (const [choice, row] of best.entries()) {
    for (const [used, seconds] of row.entries()) {
      if (seconds < end.seconds) end = { choice, used, seconds };
    }
  }
  if (end.choice < 0) return null;
  const choices: number[] = [];
  let { choice, used } = end;
  let bytes = 0;
  for (let index = layers.length - 1; index >= 0; index--) {
    choices.unshift(choice);
    const made = layers[index]?.[choice];
    if (made === undefined) return null;
    bytes += made.bytes;
    const last = before[index]?.[choice]?.[used] ?? -1;
    used -= partsOf(made);
    choice = last;
  }
  return { choices, bytes, seconds: end.seconds };
}
