import { ConfigError, type DType } from '@shardwise/core/extend';

/** Throws ConfigError for a parameter of another dtype. `asked` is the beginning of the message. */
export function requireFloat32(asked: string, { dtype }: { readonly dtype: DType }): void {
  if (dtype === 'f32') return;
  throw new ConfigError(
    {
      asked: `${asked} a parameter of ${dtype}`,
      found: 'optimizers update f32 values',
      todo: 'Build the model in f32, and choose mixedPrecision for what is stored and sent',
    },
    { dtype },
  );
}
