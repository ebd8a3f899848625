import {
  type ConnectDirectly,
  DIRECT_PIECE_BYTES,
  type DirectLink,
} from '../protocol/direct-link.ts';
import type { FromMember } from '../protocol/messages.ts';
import { decodePiece, framesOf, type Piece } from '../protocol/pieces.ts';

/** What direct links need of their member. */
interface DirectContext {
  readonly connect: ConnectDirectly;
  readonly tell: (message: FromMember) => void;
  readonly receive: (piece: Piece) => void;
  readonly delay: (milliseconds: number) => Promise<void>;
}

/** The bytes that may wait in a link before the next piece does. */
const MAX_UNSENT_BYTES: number = 16 * DIRECT_PIECE_BYTES;
const WAIT_FOR_SENDING_MS = 5;

/** The members that this one reaches without the coordinator, which has introduced them. */
export class DirectLinks {
  readonly #context: DirectContext;
  readonly #links = new Map<number, DirectLink>();
  readonly #open = new Set<number>();

  constructor(context: DirectContext) {
    this.#context = context;
  }

  /** Connects with a member. `begins`: the other one answers. */
  meet(number: number, begins: boolean): void {
    if (this.#links.has(number)) return;
    const { connect, tell, receive } = this.#context;
    const isPresent = (): boolean => this.#links.get(number) === link;
    const link = connect(begins, {
      signal: (text) => isPresent() && tell({ kind: 'signal', to: number, text }),
      opened: () => {
        if (!isPresent()) return;
        this.#open.add(number);
        tell({ kind: 'linked', to: number, isOpen: true });
      },
      receive: (bytes) => {
        const piece = decodePiece(bytes);
        // Whatever number is written there, it is an update of the member at the other end.
        if (isPresent() && piece?.kind === 'update') receive({ ...piece, member: number });
      },
      closed: () => {
        if (!isPresent()) return;
        this.#links.delete(number);
        if (this.#open.delete(number)) tell({ kind: 'linked', to: number, isOpen: false });
      },
    });
    this.#links.set(number, link);
  }

  signal(from: number, text: string): void {
    this.#links.get(from)?.signal(text);
  }

  /** Who is reached. */
  get reached(): readonly number[] {
    return [...this.#open];
  }

  /** Sends an update to all who are reached. Nobody waits for it: the coordinator hears of those who have it. */
  send(round: number, update: Uint8Array): void {
    for (const number of this.#open) {
      // A link that ends is told when it ends.
      this.#sendTo(number, round, update).catch(() => undefined);
    }
  }

  /** Nobody is reached any more. */
  lost(): void {
    const links = [...this.#links.values()];
    this.#links.clear();
    this.#open.clear();
    for (const link of links) link.close();
  }

  async #sendTo(number: number, round: number, update: Uint8Array): Promise<void> {
    const link = this.#links.get(number);
    const piece = { kind: 'update', round, member: number } as const;
    for (const frame of framesOf(piece, update, DIRECT_PIECE_BYTES)) {
      while (this.#isFull(number)) await this.#context.delay(WAIT_FOR_SENDING_MS);
      if (this.#links.get(number) !== link) return;
      link?.send(frame);
    }
  }

  #isFull(number: number): boolean {
    return (this.#links.get(number)?.bufferedBytes ?? 0) > MAX_UNSENT_BYTES;
  }
}
