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

/** A choice for each of the layers so far. No other of the same last choice needs less memory and less time. */
interface Chain extends LayerChoice {
  readonly choice: number;
  readonly before: Chain | null;
}

/** With more chains than this, those that need almost the same memory as another are left out. */
const MAX_CHAINS = 4096;

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
  let chains: readonly Chain[] = [{ choice: -1, bytes: 0, seconds: 0, before: null }];
  for (const choices of layers) {
    const before = chains;
    chains = choices.flatMap(({ bytes, seconds }, choice) =>
      best(
        before.flatMap((chain): Chain[] => {
          const used = chain.bytes + bytes;
          if (used > memoryBytes) return [];
          const between = chain.before === null ? 0 : switchSeconds(chain.choice, choice);
          return [
            { choice, bytes: used, seconds: chain.seconds + between + seconds, before: chain },
          ];
        }),
        memoryBytes,
      ),
    );
  }
  const [first, ...others] = chains;
  if (first === undefined) return null;
  const end = others.reduce((least, each) => (each.seconds < least.seconds ? each : least), first);
  return { choices: choicesOf(end), bytes: end.bytes, seconds: end.seconds };
}

/** Returns the chains of which no other needs less memory and less time, by their memory. */
function best(chains: readonly Chain[], memoryBytes: number): readonly Chain[] {
  const kept: Chain[] = [];
  for (const chain of chains.toSorted((a, b) => a.bytes - b.bytes || a.seconds - b.seconds)) {
    const last = kept.at(-1);
    if (last === undefined || chain.seconds < last.seconds) kept.push(chain);
  }
  if (kept.length <= MAX_CHAINS) return kept;
  let bytes = -Infinity;
  return kept.filter((chain) => {
    const isFar = chain.bytes - bytes >= memoryBytes / MAX_CHAINS;
    if (isFar) bytes = chain.bytes;
    return isFar;
  });
}

function choicesOf(end: Chain): readonly number[] {
  const choices: number[] = [];
  for (let chain = end; chain.before !== null; chain = chain.before) choices.unshift(chain.choice);
  return choices;
}
