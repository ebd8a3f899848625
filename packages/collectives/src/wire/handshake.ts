import { randomBytes } from 'node:crypto';
import type { CollectiveError } from '@shardwise/core/spec';
import { decodeHello, encodeHello, HELLO_BYTES, type Hello } from './hello.ts';
import { isSameProof, NONCE_BYTES, PROOF_BYTES, proofOf } from './secret.ts';
import { handshakeError } from './wire-error.ts';

/*
 * The handshake has four messages of fixed length. The acceptor looks at nothing that the connector says before
 * its proof.
 *
 *   connector                                    acceptor
 *     mark, nonce                          ──►
 *                                          ◄──   mark, nonce
 *     proof(nonces, hello), hello          ──►
 *                                          ◄──   proof(nonces, hello, verdict), verdict
 */
const MARK = new TextEncoder().encode('SHARDW 1');
const OPENING_BYTES = MARK.byteLength + NONCE_BYTES;
const CLAIM_BYTES = PROOF_BYTES + HELLO_BYTES;
const REASON_BYTES = 254;
/** A verdict consists of a status, the length of the reason, and the reason. */
const VERDICT_BYTES = 2 + REASON_BYTES;
const ANSWER_BYTES = PROOF_BYTES + VERDICT_BYTES;

const statuses = { welcome: 0, wrongSecret: 1, refused: 2 } as const;

/** What to do after the bytes that have come. */
export interface HandshakeReply {
  readonly send?: Uint8Array;
  /** If it is given, the handshake is over, and these bytes came after it. */
  readonly rest?: Uint8Array;
  /** If it is given, the connection must be closed when `send` has been sent. */
  readonly refused?: CollectiveError;
}

/** The side that connects. Its `push` throws CollectiveError if the other side refuses it. */
export class ConnectorHandshake {
  readonly opening: Uint8Array;
  readonly #secret: string;
  readonly #hello: Uint8Array;
  readonly #nonce = randomBytes(NONCE_BYTES);
  #acceptorNonce: Uint8Array | undefined;
  #received = new Uint8Array(0);

  constructor(secret: string, hello: Hello) {
    this.#secret = secret;
    this.#hello = encodeHello(hello);
    this.opening = Buffer.concat([MARK, this.#nonce]);
  }

  push(chunk: Uint8Array): HandshakeReply {
    this.#received = append(this.#received, chunk);
    if (this.#acceptorNonce === undefined) {
      checkMark(this.#received);
      if (this.#received.byteLength < OPENING_BYTES) return {};
      this.#acceptorNonce = this.#received.slice(MARK.byteLength, OPENING_BYTES);
      this.#received = this.#received.slice(OPENING_BYTES);
      const proof = proofOf(this.#secret, 'connector', this.#transcript(this.#acceptorNonce));
      return { send: Buffer.concat([proof, this.#hello]) };
    }
    if (this.#received.byteLength < ANSWER_BYTES) return {};
    this.#checkAnswer(this.#received.subarray(0, ANSWER_BYTES), this.#acceptorNonce);
    return { rest: this.#received.slice(ANSWER_BYTES) };
  }

  #checkAnswer(answer: Uint8Array, acceptorNonce: Uint8Array): void {
    const verdict = answer.subarray(PROOF_BYTES);
    if (verdict[0] === statuses.wrongSecret) throw wrongSecretError('the acceptor refused it');
    const proof = proofOf(this.#secret, 'acceptor', this.#transcript(acceptorNonce), verdict);
    if (!isSameProof(proof, answer.subarray(0, PROOF_BYTES))) {
      throw wrongSecretError('the acceptor does not hold it');
    }
    if (verdict[0] !== statuses.welcome) throw refusedError(reasonOf(verdict));
  }

  #transcript(acceptorNonce: Uint8Array) {
    return { connectorNonce: this.#nonce, acceptorNonce, hello: this.#hello };
  }
}

/**
 * The side that is connected to. `refusal` returns the reason for which a hello is refused, or undefined if it is
 * accepted.
 */
export class AcceptorHandshake {
  readonly #secret: string;
  readonly #refusal: (hello: Hello) => string | undefined;
  readonly #nonce = randomBytes(NONCE_BYTES);
  #connectorNonce: Uint8Array | undefined;
  #received = new Uint8Array(0);
  #hello: Hello | undefined;

  constructor(secret: string, refusal: (hello: Hello) => string | undefined) {
    this.#secret = secret;
    this.#refusal = refusal;
  }

  /** What the connector says of the connection. Undefined until it has proved that it has the secret. */
  get hello(): Hello | undefined {
    return this.#hello;
  }

  /** Throws CollectiveError for bytes that are no handshake, which get no answer. */
  push(chunk: Uint8Array): HandshakeReply {
    this.#received = append(this.#received, chunk);
    if (this.#connectorNonce === undefined) {
      checkMark(this.#received);
      if (this.#received.byteLength < OPENING_BYTES) return {};
      this.#connectorNonce = this.#received.slice(MARK.byteLength, OPENING_BYTES);
      this.#received = this.#received.slice(OPENING_BYTES);
      return { send: Buffer.concat([MARK, this.#nonce]) };
    }
    if (this.#received.byteLength < CLAIM_BYTES) return {};
    const hello = this.#received.slice(PROOF_BYTES, CLAIM_BYTES);
    const transcript = {
      connectorNonce: this.#connectorNonce,
      acceptorNonce: this.#nonce,
      hello,
    };
    const claimed = this.#received.subarray(0, PROOF_BYTES);
    if (!isSameProof(proofOf(this.#secret, 'connector', transcript), claimed)) {
      const answer = new Uint8Array(ANSWER_BYTES);
      answer[PROOF_BYTES] = statuses.wrongSecret;
      return { send: answer, refused: wrongSecretError('the connector does not hold it') };
    }
    const decoded = decodeHello(hello);
    const reason = this.#refusal(decoded);
    const verdict = encodeVerdict(reason);
    const proof = proofOf(this.#secret, 'acceptor', transcript, verdict);
    const send = Buffer.concat([proof, verdict]);
    if (reason !== undefined) return { send, refused: refusedError(reason) };
    this.#hello = decoded;
    return { send, rest: this.#received.slice(CLAIM_BYTES) };
  }
}

function append(received: Uint8Array<ArrayBuffer>, chunk: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(received.byteLength + chunk.byteLength);
  joined.set(received);
  joined.set(chunk, received.byteLength);
  return joined;
}

function checkMark(received: Uint8Array): void {
  const expected = MARK.subarray(0, received.byteLength);
  if (Buffer.compare(expected, received.subarray(0, expected.byteLength)) === 0) return;
  throw handshakeError({
    asked: 'The handshake of a connection',
    found: 'the other side speaks another protocol',
    todo: 'Check the address and the port, and that both run this version of Shardwise',
  });
}

function encodeVerdict(reason: string | undefined): Uint8Array {
  const verdict = new Uint8Array(VERDICT_BYTES);
  verdict[0] = reason === undefined ? statuses.welcome : statuses.refused;
  const { written } = new TextEncoder().encodeInto(reason ?? '', verdict.subarray(2));
  verdict[1] = written;
  return verdict;
}

function reasonOf(verdict: Uint8Array): string {
  return new TextDecoder().decode(verdict.subarray(2, 2 + (verdict[1] ?? 0)));
}

export function wrongSecretError(found: string): CollectiveError {
  return handshakeError({
    asked: "A connection with the job's secret",
    found: `the secrets differ: ${found}`,
    todo: 'Give every process of the job the same secret, and every job its own port',
  });
}

function refusedError(reason: string): CollectiveError {
  return handshakeError(
    {
      asked: 'A connection within the job',
      found: `it was refused because ${reason}`,
      todo: 'Check that no process of an earlier start, or of another job, uses the same store',
    },
    { reason },
  );
}
