import { compare, type Comparison, describe, layerMemory, mebibytes } from './compare.ts';
import { keepsScores } from './keeps-scores.ts';
import { activationFormula, paperFormula, parameterFormula } from './memory-formula.ts';
import { type Mode, modes, type RankRound } from './messages.ts';
import { ranksOf, startRanks } from './ranks.ts';
import { workload } from './workload.ts';

export interface ModeMemory {
  readonly parameters: Comparison;
  /** The two moments of AdamW. */
  readonly optimizer: Comparison;
  /** The activations of all layers. */
  readonly activations: Comparison;
  /** The bytes by the paper's list, with dropout. */
  readonly paperActivationBytes: number;
}

/** Trains the model and one of half the depth. Throws if the memory differs from the formulas. */
export async function measureMemory(): Promise<Readonly<Record<Mode, ModeMemory>>> {
  const found = new Map<Mode, ModeMemory>();
  for (const mode of modes) found.set(mode, await memoryOf(mode));
  const of = (mode: Mode): ModeMemory => {
    const memory = found.get(mode);
    if (memory === undefined) throw new RangeError(mode);
    return memory;
  };
  return {
    alone: of('alone'),
    tensor: of('tensor'),
    sequence: of('sequence'),
    gathering: of('gathering'),
  };
}

async function memoryOf(mode: Mode): Promise<ModeMemory> {
  const { layers } = workload;
  const shallow = await trained(mode, layers / 2);
  const deep = await trained(mode, layers);
  const { activationBytes } = layerMemory(shallow, deep, layers / 2);
  const t = ranksOf(mode);
  const parameterBytes = parameterFormula(layers, t);
  const named = (what: string): string => `${what} of a rank, ${mode}`;
  return {
    parameters: compare(named('parameters'), deep.parameterBytes, parameterBytes),
    optimizer: compare(named('optimizer states'), deep.optimizerBytes, 2 * parameterBytes),
    activations: compare(
      named('activations'),
      layers * activationBytes,
      layers * activationFormula(mode, t, await keepsScores()),
    ),
    paperActivationBytes: layers * paperFormula(mode, t),
  };
}

/** Returns the measurements of the first rank after two steps. */
async function trained(mode: Mode, layers: number): Promise<RankRound> {
  const ranks = startRanks(mode, layers, workload.memoryBatch);
  try {
    const [first] = await ranks.round(2);
    if (first === undefined) throw new RangeError('no ranks');
    return first;
  } finally {
    await ranks.close();
  }
}

export function memoryRows(
  memory: Readonly<Record<Mode, ModeMemory>>,
): readonly (readonly [string, string])[] {
  return modes.flatMap((mode) => {
    const { parameters, optimizer, activations, paperActivationBytes } = memory[mode];
    return [
      [`parameters of a rank, ${mode}`, describe(parameters)],
      [`optimizer states of a rank, ${mode}`, describe(optimizer)],
      [
        `activations of a rank's layers, ${mode}`,
        `${describe(activations)}; with dropout the paper's are ${mebibytes(paperActivationBytes)}`,
      ],
    ] as const;
  });
}
