import { z } from 'zod';
import { ConfigError } from '../spec/errors.ts';
import { MersenneTwister } from './mersenne-twister.ts';

/** A generator at one moment, as plain data that JSON keeps exactly. */
export interface GeneratorState {
  readonly version: 1;
  /** In decimal, since it can exceed 2^53. */
  readonly seed: string;
  readonly words: readonly number[];
  readonly position: number;
  /** The second value of a Box-Muller pair, where only the first has been taken. */
  readonly nextNormal: number | null;
}

export const generatorStateSchema: z.ZodType<GeneratorState> = z.strictObject({
  version: z.literal(1),
  seed: z
    .string()
    .regex(/^\d{1,20}$/)
    .refine((seed) => BigInt(seed) < 2n ** 64n, 'exceeds 64 bits'),
  words: z.array(z.int().min(0).max(0xffffffff)).length(MersenneTwister.words),
  position: z.int().min(0).max(MersenneTwister.words),
  nextNormal: z.number().nullable(),
});

/** Throws ConfigError where `value` is not a generator's state. */
export function parseGeneratorState(value: unknown): GeneratorState {
  const parsed = generatorStateSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.join('.') ?? '';
  throw new ConfigError(
    {
      asked: 'set the state of a random generator',
      found: `${path === '' ? 'the value' : path}: ${issue?.message ?? 'not a state'}`,
      todo: 'Pass what getState() returned, unchanged',
    },
    { path },
    { cause: parsed.error },
  );
}
