import { createHmac, timingSafeEqual } from 'node:crypto';

export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;

/** What both sides have sent before a proof. */
export interface Transcript {
  readonly connectorNonce: Uint8Array;
  readonly acceptorNonce: Uint8Array;
  /** The encoded hello. */
  readonly hello: Uint8Array;
}

/** The proof that a side has the job's secret: HMAC-SHA-256 over its role and all that was sent. */
export function proofOf(
  secret: string,
  role: 'connector' | 'acceptor',
  { connectorNonce, acceptorNonce, hello }: Transcript,
  verdict: Uint8Array = new Uint8Array(0),
): Uint8Array {
  return createHmac('sha256', secret)
    .update(`shardwise 1 ${role} `)
    .update(connectorNonce)
    .update(acceptorNonce)
    .update(hello)
    .update(verdict)
    .digest();
}

/** Compares two proofs in constant time. */
export function isSameProof(one: Uint8Array, other: Uint8Array): boolean {
  return one.byteLength === other.byteLength && timingSafeEqual(one, other);
}

/** A key for TLS that differs from that of the proofs. */
export function pskOf(secret: string): Uint8Array {
  return createHmac('sha256', secret).update('shardwise 1 tls psk').digest();
}

/**
 * The options of TLS: whoever has the secret is accepted, and there are no certificates. TLS 1.2 is the last
 * version with such pre-shared keys.
 */
export const PSK_TLS = {
  ciphers: 'PSK-AES128-GCM-SHA256',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;
