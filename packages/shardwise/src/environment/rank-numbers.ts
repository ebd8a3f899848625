import {
  conflictError,
  MAX_WORLD_SIZE,
  missingError,
  neededIntegerOf,
  textOf,
} from './variables.ts';

/** The names of a launcher's variables that hold the numbers of a rank. */
export interface RankNames {
  readonly rank: string;
  readonly worldSize: string;
  readonly localRank: string;
  readonly localWorldSize: string;
}

export interface RankNumbers {
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localWorldSize: number;
}

/**
 * Reads the four numbers of a rank and checks them against each other. Throws a ConfigError that names the variables
 * that are missing or wrong.
 */
export function rankNumbers(env: NodeJS.ProcessEnv, names: RankNames): RankNumbers {
  const all = Object.values(names);
  const present = all.find((name) => textOf(env, name) !== undefined) ?? names.rank;
  const missing = all.filter((name) => textOf(env, name) === undefined);
  if (missing.length > 0) throw missingError(present, missing);
  const read = (name: string, min: number): number =>
    neededIntegerOf(env, name, { min, max: MAX_WORLD_SIZE, because: present });
  const numbers = {
    rank: read(names.rank, 0),
    worldSize: read(names.worldSize, 1),
    localRank: read(names.localRank, 0),
    localWorldSize: read(names.localWorldSize, 1),
  };
  checkRankNumbers(numbers, names);
  return numbers;
}

/** Throws ConfigError if the numbers cannot be those of a rank. */
export function checkRankNumbers(numbers: RankNumbers, names: RankNames): void {
  const { rank, worldSize, localRank, localWorldSize } = numbers;
  const named = (key: keyof RankNames): { name: string; value: number } => ({
    name: names[key],
    value: numbers[key],
  });
  if (rank >= worldSize) {
    throw conflictError(named('rank'), named('worldSize'), `the ranks are 0 to ${worldSize - 1}`);
  }
  if (localRank >= localWorldSize) {
    const rule = `the ranks of a host count from 0 to ${localWorldSize - 1}`;
    throw conflictError(named('localRank'), named('localWorldSize'), rule);
  }
  if (localWorldSize > worldSize) {
    const rule = `a host cannot have more than all ${worldSize} ranks`;
    throw conflictError(named('localWorldSize'), named('worldSize'), rule);
  }
}
