import { option, type OptionRules } from '@shardwise/core/spec';

/** Where a server listens, and whom it lets in. */
export interface ServerOptions {
  /** The address to listen on. Default: 127.0.0.1, which only processes of this host reach. */
  readonly host?: string;
  /** Default: 0, which means a free port. */
  readonly port?: number;
  /** Whoever has the secret may connect. */
  readonly secret: string;
  /** Whether all traffic is encrypted (TLS with the secret as key). Default: false. */
  readonly encrypt?: boolean;
}

export const serverRules: OptionRules<ServerOptions> = {
  host: option.nonEmptyText,
  port: option.integer(0, 65_535),
  secret: option.required(option.nonEmptyText),
  encrypt: option.flag,
};

/** A server that listens. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** Ends the server and its connections. Calls that are pending on them reject. */
  close(): void;
}
