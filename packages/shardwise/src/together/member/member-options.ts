import type { ConnectDirectly } from '../protocol/direct-link.ts';
import type { Link, LinkEvents } from '../protocol/link.ts';

/** What happens with a connection of a member. */
export interface ConnectionEvents extends LinkEvents {
  opened(): void;
}

/** What a member is made of. */
export interface MemberOptions {
  readonly url: string;
  readonly token: string;
  readonly name: string;
  /** The number of the member of which this rank is a part, while another rank connects. */
  readonly number?: number;
  /** How long it tries to connect again after the connection was lost. */
  readonly reconnectTimeoutMs: number;
  readonly connect: (events: ConnectionEvents) => Link;
  /** How it reaches other members without the coordinator. Null: it cannot. */
  readonly connectDirectly: ConnectDirectly | null;
  /** Returns the SHA-256 of bytes in hexadecimal digits. It has read them when it returns. */
  readonly digest: (bytes: Uint8Array) => Promise<string>;
  readonly delay: (milliseconds: number) => Promise<void>;
  readonly now: () => number;
  /** Is told what the user of the member should know. */
  readonly onNotice: (notice: string) => void;
}
