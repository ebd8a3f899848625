import {
  checkOptions,
  Conv2d,
  option,
  type OptionRules,
  ShapeError,
  Tensor,
} from '@shardwise/core/extend';
import type { InitialValues } from '../layers/initial-values.ts';
import type { ForwardCall } from '../model/forward-call.ts';

/** What a forward pass of images may be given beside them. Shape: labels i32 [B] or floats [B, L]. */
export type ImageCall = Pick<ForwardCall, 'labels'>;

const callRules: OptionRules<ImageCall> = { labels: option.instanceOf(Tensor) };

/** Throws ShapeError for images of other sizes, and ConfigError for what a forward pass of images is not given. */
export function requireImages(
  model: string,
  images: Tensor,
  call: ImageCall,
  { channels, size }: { readonly channels: number; readonly size?: readonly [number, number] },
): void {
  checkOptions(`${model}.forward`, call, callRules);
  const [, found, height, width] = images.shape;
  const fits = size === undefined || (height === size[0] && width === size[1]);
  if (images.ndim === 4 && found === channels && fits) return;
  const [H, W] = size ?? ['H', 'W'];
  throw new ShapeError(
    {
      asked: `${model} with images of shape [${images.shape.join(', ')}]`,
      found: `a model of images of shape [B, ${channels}, ${H}, ${W}]`,
      todo: 'Put the colours in dim 1, and resize the images to what the model was trained with',
    },
    { model, shape: images.shape },
  );
}

/** The form of a convolution. */
interface ConvForm {
  readonly kernel: readonly [height: number, width: number];
  readonly stride: number | readonly [number, number];
  readonly padding?: number;
  readonly bias?: boolean;
  /** The standard deviation of initial weights. */
  readonly std: number;
}

/** Makes a convolution of normal weights, and a bias of zeros. Weight [out, in, ...kernel]. */
export function conv2d(
  values: InitialValues,
  [inChannels, outChannels]: readonly [number, number],
  { kernel, stride, padding = 0, bias = true, std }: ConvForm,
): Conv2d {
  const layer = new Conv2d(0, 0, kernel, { stride, padding, bias: false });
  layer.weight = values.weight([outChannels, inChannels, ...kernel], std);
  if (bias) layer.bias = values.constant([outChannels], 0);
  return layer;
}
