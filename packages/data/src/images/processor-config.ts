import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import { type FilterName, filterNames } from './resize.ts';

/** A size of images: whole, or that of the shorter side, which keeps the shape. */
export type ProcessedSize =
  | { readonly height: number; readonly width: number }
  | { readonly shortestEdge: number };

/** What is done to an image, in this order. */
export interface ProcessorSteps {
  /** `cropShare`: the part of the resized image that is kept from its middle (`crop_pct` of ConvNext). */
  readonly resize:
    | { readonly size: ProcessedSize; readonly filter: FilterName; readonly cropShare?: number }
    | undefined;
  readonly centerCrop: { readonly height: number; readonly width: number } | undefined;
  readonly rescaleFactor: number | undefined;
  readonly normalize:
    | { readonly mean: readonly number[]; readonly std: readonly number[] }
    | undefined;
}

const MAX_EDGE = 16_384;
const edge = z.int().min(1).max(MAX_EDGE);
const wholeSize = z.strictObject({ height: edge, width: edge });
const sizeSchema = z.union([edge, wholeSize, z.strictObject({ shortest_edge: edge })]);
const perColor = z.union([z.number(), z.array(z.number()).length(3)]);

const configSchema = z.strictObject({
  image_processor_type: z.string().optional(),
  feature_extractor_type: z.string().optional(),
  do_convert_rgb: z.boolean().nullish(),
  do_resize: z.boolean().default(true),
  size: sizeSchema.nullish(),
  resample: z
    .int()
    .min(0)
    .max(filterNames.length - 1)
    .nullish(),
  crop_pct: z.number().gt(0).lte(1).nullish(),
  do_center_crop: z.boolean().nullish(),
  crop_size: z.union([edge, wholeSize]).nullish(),
  do_rescale: z.boolean().default(true),
  rescale_factor: z
    .number()
    .gt(0)
    .default(1 / 255),
  do_normalize: z.boolean().default(true),
  image_mean: perColor.nullish(),
  image_std: perColor.nullish(),
  // What transformers writes beside them. The values that change nothing are accepted.
  default_to_square: z.boolean().nullish(),
  do_pad: z.literal(false).nullish(),
  pad_size: z.null().optional(),
  input_data_format: z.null().optional(),
  data_format: z.literal('channels_first').nullish(),
  return_tensors: z.null().optional(),
  disable_grouping: z.unknown().optional(),
  device: z.unknown().optional(),
  processor_class: z.unknown().optional(),
  image_seq_length: z.null().optional(),
});

/** What a kind of processor does where its file is silent. */
const kinds = {
  ViT: {
    resample: 2,
    size: { height: 224, width: 224 },
    mean: [0.5, 0.5, 0.5],
    std: [0.5, 0.5, 0.5],
  },
  ConvNext: {
    resample: 3,
    size: { shortest_edge: 384 },
    mean: [0.5, 0.5, 0.5],
    std: [0.5, 0.5, 0.5],
  },
} as const;

/** From this size on, ConvNext's processor resizes to a square and crops nothing. */
const WHOLE_FROM = 384;

/** Reads what a `preprocessor_config.json` says. Throws ConfigError for keys, values and processors that are not known. */
export function parseProcessorConfig(json: unknown, name: string): ProcessorSteps {
  const parsed = configSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const keys =
      issue?.code === 'unrecognized_keys' ? issue.keys.join(', ') : issue?.path.join('.');
    throw refused(name, `${keys ?? ''}: ${issue?.message ?? 'another form'}`);
  }
  const config = parsed.data;
  const type = config.image_processor_type ?? config.feature_extractor_type;
  const kind = /^(ViT|ConvNext)(?:ImageProcessor(?:Fast|Pil)?|FeatureExtractor)$/.exec(
    type ?? '',
  )?.[1];
  if (kind !== 'ViT' && kind !== 'ConvNext') {
    throw refused(
      name,
      `image_processor_type: ${type ?? 'none'}, and ViTImageProcessor and ConvNextImageProcessor are known`,
    );
  }
  const defaults = kinds[kind];
  const filter = filterNames[config.resample ?? defaults.resample] ?? 'bilinear';
  const size = config.size ?? defaults.size;
  const { do_center_crop: crops, crop_size: crop } = config;
  if (crops === true && (crop === null || crop === undefined)) {
    throw refused(name, 'do_center_crop: true without crop_size');
  }
  if (kind === 'ViT' && config.crop_pct !== null && config.crop_pct !== undefined) {
    throw refused(name, 'crop_pct, which a ViTImageProcessor does not have');
  }
  const { image_mean: mean, image_std: std } = config;
  const normalize = { mean: colors(mean ?? defaults.mean), std: colors(std ?? defaults.std) };
  if (normalize.std.includes(0)) throw refused(name, 'image_std with a zero, by which it divides');
  return {
    resize: !config.do_resize
      ? undefined
      : kind === 'ViT'
        ? { size: typeof size === 'number' ? { height: size, width: size } : sizeOf(size), filter }
        : { ...convNextSize(size, config.crop_pct ?? 224 / 256, name), filter },
    centerCrop:
      crops !== true || crop === null || crop === undefined
        ? undefined
        : typeof crop === 'number'
          ? { height: crop, width: crop }
          : crop,
    rescaleFactor: config.do_rescale ? config.rescale_factor : undefined,
    normalize: config.do_normalize ? normalize : undefined,
  };
}

function sizeOf(size: Exclude<z.output<typeof sizeSchema>, number>): ProcessedSize {
  return 'shortest_edge' in size ? { shortestEdge: size.shortest_edge } : size;
}

function convNextSize(
  size: z.output<typeof sizeSchema>,
  cropShare: number,
  name: string,
): { readonly size: ProcessedSize; readonly cropShare?: number } {
  if (typeof size !== 'number' && !('shortest_edge' in size)) {
    throw refused(
      name,
      'size with height and width, and a ConvNextImageProcessor has shortest_edge',
    );
  }
  const shortestEdge = typeof size === 'number' ? size : size.shortest_edge;
  if (shortestEdge < WHOLE_FROM) return { size: { shortestEdge }, cropShare };
  return { size: { height: shortestEdge, width: shortestEdge } };
}

function colors(values: number | readonly number[]): readonly number[] {
  return typeof values === 'number' ? [values, values, values] : values;
}

function refused(name: string, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `the image processor of ${name}`,
      found,
      todo: 'Give the preprocessor_config.json of a ViT or ResNet, or process images in a function of your own',
    },
    { name },
  );
}
