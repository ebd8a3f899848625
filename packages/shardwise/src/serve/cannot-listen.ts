import { ConfigError } from '@shardwise/core/spec';

/** The error of a server that cannot listen at an address. */
export function cannotListen(host: string, port: number, cause: unknown): ConfigError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  return new ConfigError(
    {
      asked: `to listen at ${host}, port ${port}`,
      found:
        code === 'EADDRINUSE'
          ? 'a port that another program uses'
          : cause instanceof Error
            ? cause.message
            : String(cause),
      todo: 'Give another --port (0 takes one that is free), or another --host',
    },
    { host, port },
    { cause },
  );
}
