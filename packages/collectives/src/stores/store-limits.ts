import { ConfigError } from '@shardwise/core/spec';

export const MAX_KEY_BYTES = 1024;
export const MAX_VALUE_BYTES: number = 1 << 20;
export const MAX_KEYS: number = 1 << 16;
/** The number of keys that one call can wait for. */
export const MAX_AWAITED_KEYS = 1024;

export function checkKey(key: string): void {
  const byteLength = Buffer.byteLength(key);
  if (byteLength > 0 && byteLength <= MAX_KEY_BYTES) return;
  throw new ConfigError(
    {
      asked: `A store key of ${byteLength} bytes`,
      found: `keys have 1 to ${MAX_KEY_BYTES} bytes`,
      todo: 'Shorten the key',
    },
    { byteLength, maxKeyBytes: MAX_KEY_BYTES },
  );
}

export function checkValue(key: string, value: Uint8Array): void {
  if (value.byteLength <= MAX_VALUE_BYTES) return;
  throw new ConfigError(
    {
      asked: `A value of ${value.byteLength} bytes for store key ${key}`,
      found: `values have at most ${MAX_VALUE_BYTES} bytes`,
      todo: 'Send it through a process group instead',
    },
    { key, byteLength: value.byteLength, maxValueBytes: MAX_VALUE_BYTES },
  );
}

export function checkAwaited(keys: readonly string[]): void {
  for (const key of keys) checkKey(key);
  if (keys.length <= MAX_AWAITED_KEYS) return;
  throw new ConfigError(
    {
      asked: `Waiting for ${keys.length} store keys at once`,
      found: `one call waits for at most ${MAX_AWAITED_KEYS}`,
      todo: 'Wait for them in several calls, or count with add',
    },
    { keys: keys.length, maxAwaitedKeys: MAX_AWAITED_KEYS },
  );
}

export function checkAmount(key: string, amount: number): void {
  if (Number.isSafeInteger(amount)) return;
  throw new ConfigError(
    {
      asked: `Adding ${amount} to store key ${key}`,
      found: 'counters are integers below 2^53',
      todo: 'Pass an integer',
    },
    { key, amount },
  );
}
