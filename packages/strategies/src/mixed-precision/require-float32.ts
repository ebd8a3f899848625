import { ConfigError, type DType } from '@shardwise/core/extend';

/**
 * Throws ConfigError for a parameter of another dtype that trains. Frozen ones may have any. `asked` is the beginning of
 * the message.
 */
export function requireFloat32(
  asked: string,
  { dtype, requiresGrad }: { readonly dtype: DType; readonly requiresGrad: boolean },
): void {
  if (dtype === 'f32' || !requiresGrad) return;
  throw new ConfigError(
    {
      asked: `${asked} a parameter of ${dtype}`,
      found: 'optimizers update f32 values',
      todo: 'Build the model in f32, and choose mixedPrecision for what is stored and sent',
    },
    { dtype },
  );
}
