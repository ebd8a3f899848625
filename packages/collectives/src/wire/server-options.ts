import { option, type OptionRules } from '@shardwise/core/base';

/** Where a server listens, and who may connect. */
export interface ServerOptions {
  /** The address to listen on. Default: 127.0.0.1, which only processes of this host can reach. */
  readonly host?: string;
  /** Default: 0, which means any free port. */
  readonly port?: number;
  /** Every process that has the secret may connect. */
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

/** A running server. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** Ends the server and its connections. Calls that are pending on them reject. */
  close(): void;
}
