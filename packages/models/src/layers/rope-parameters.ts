import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';

/** How the frequencies of rotary embeddings are made: Hugging Face's `rope_parameters`, and `rope_scaling` before. */
export interface RopeParameters {
  /**
   * `default`: base^(-2i/D). `linear`: divided by `factor`. `dynamic`: with a base that grows with the row (NTK-aware).
   * `llama3`: low frequencies are divided by `factor`. `yarn`: Peng et al. 2023.
   */
  readonly ropeType: 'default' | 'linear' | 'dynamic' | 'llama3' | 'yarn';
  /** The base of the frequencies. */
  readonly ropeTheta: number;
  /** How many times longer rows may be than in pre-training. */
  readonly factor?: number | undefined;
  /** The length of rows in pre-training. */
  readonly originalMaxPositionEmbeddings?: number | undefined;
  /** llama3: wavelengths above originalMaxPositionEmbeddings / lowFreqFactor are scaled. */
  readonly lowFreqFactor?: number | undefined;
  /** llama3: wavelengths below originalMaxPositionEmbeddings / highFreqFactor are not scaled. */
  readonly highFreqFactor?: number | undefined;
  /** yarn: what sines and cosines are multiplied by. Default: 0.1 ln(factor) + 1. */
  readonly attentionFactor?: number | undefined;
  /** yarn: dims that turn more often than this in a row of pre-training are not scaled. Default: 32. */
  readonly betaFast?: number | undefined;
  /** yarn: dims that turn less often than this are scaled as by `linear`. Default: 1. */
  readonly betaSlow?: number | undefined;
  readonly mscale?: number | undefined;
  readonly mscaleAllDim?: number | undefined;
  /** yarn: whether the bounds of the ramp are rounded to whole dims. Default: true. */
  readonly truncate?: boolean | undefined;
}

const types = ['default', 'linear', 'dynamic', 'llama3', 'yarn'] as const;
const number = z.number().positive().nullish();

/** The values as they are in a file, of which some may be missing or null. */
export interface RawRopeParameters {
  readonly ropeType?: RopeParameters['ropeType'] | null | undefined;
  /** The name of ropeType before transformers 4.43. */
  readonly type?: RopeParameters['ropeType'] | null | undefined;
  readonly ropeTheta?: number | null | undefined;
  readonly factor?: number | null | undefined;
  readonly originalMaxPositionEmbeddings?: number | null | undefined;
  readonly lowFreqFactor?: number | null | undefined;
  readonly highFreqFactor?: number | null | undefined;
  readonly attentionFactor?: number | null | undefined;
  readonly betaFast?: number | null | undefined;
  readonly betaSlow?: number | null | undefined;
  readonly mscale?: number | null | undefined;
  readonly mscaleAllDim?: number | null | undefined;
  readonly truncate?: boolean | null | undefined;
  readonly partialRotaryFactor?: 1 | null | undefined;
}

/** A table of rope parameters in a config. Rotating only a part of the dims (`partial_rotary_factor`) is refused. */
export const ropeSchema: z.ZodType<RawRopeParameters> = z.strictObject({
  ropeType: z.enum(types).nullish(),
  type: z.enum(types).nullish(),
  ropeTheta: number,
  factor: number,
  originalMaxPositionEmbeddings: number,
  lowFreqFactor: number,
  highFreqFactor: number,
  attentionFactor: number,
  betaFast: number,
  betaSlow: number,
  mscale: number,
  mscaleAllDim: number,
  truncate: z.boolean().nullish(),
  partialRotaryFactor: z.literal(1).nullish(),
});

/** The keys of a config from which rope parameters are read. */
export interface RopeConfig {
  /** The base of the frequencies before transformers 5. */
  readonly ropeTheta: number | null;
  /** The table before transformers 5. */
  readonly ropeScaling: RawRopeParameters | null;
  /** The table since transformers 5, which contains the base. */
  readonly ropeParameters: RawRopeParameters | null;
  /** The length of rows for which the model was made. */
  readonly maxPositionEmbeddings: number;
}

type Table = z.ZodDefault<z.ZodNullable<z.ZodType<RawRopeParameters>>>;

/** The rules of a config's rope parameters. */
export const ropeShape: {
  readonly ropeTheta: z.ZodDefault<z.ZodNullable<z.ZodNumber>>;
  readonly ropeScaling: Table;
  readonly ropeParameters: Table;
} = {
  ropeTheta: z.number().positive().nullable().default(null),
  ropeScaling: ropeSchema.nullable().default(null),
  ropeParameters: ropeSchema.nullable().default(null),
};

/** Returns the rope parameters of a config in either form. Throws ConfigError for a missing one. */
export function ropeParametersOf(config: RopeConfig, defaultTheta = 10000): RopeParameters {
  const { ropeParameters, ropeScaling, ropeTheta, maxPositionEmbeddings } = config;
  const theta = ropeTheta ?? defaultTheta;
  return resolveRope(ropeParameters ?? ropeScaling ?? {}, { theta, maxPositionEmbeddings });
}

/** Fills in what a table leaves out. Throws ConfigError for a missing value without a default. */
function resolveRope(
  table: RawRopeParameters,
  defaults: { readonly theta: number; readonly maxPositionEmbeddings: number },
): RopeParameters {
  const given = withoutNulls(table);
  const ropeType = given.ropeType ?? given.type ?? 'default';
  const parameters: RopeParameters = {
    originalMaxPositionEmbeddings: defaults.maxPositionEmbeddings,
    ...given,
    ropeTheta: given.ropeTheta ?? defaults.theta,
    ropeType,
  };
  const needed =
    ropeType === 'default'
      ? []
      : ropeType === 'llama3'
        ? (['factor', 'lowFreqFactor', 'highFreqFactor'] as const)
        : ropeType === 'yarn' && given.originalMaxPositionEmbeddings !== undefined
          ? []
          : (['factor'] as const);
  const missing = needed.find((key) => parameters[key] === undefined);
  if (missing !== undefined) throw missingKey(ropeType, missing);
  return parameters;
}

type Given = { readonly [K in keyof RawRopeParameters]: Exclude<RawRopeParameters[K], null> };

function withoutNulls(table: RawRopeParameters): Given {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => value !== null));
}

function missingKey(ropeType: string, key: string): ConfigError {
  return new ConfigError(
    {
      asked: `rotary embeddings with rope_type ${ropeType}`,
      found: `no ${key} in rope_parameters`,
      todo: 'Add it, as the config of the checkpoint has it',
    },
    { ropeType, key },
  );
}
