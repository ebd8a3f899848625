import { createHmac, timingSafeEqual } from 'node:crypto';

export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;

/** What both sides have said before a proof. */
export interface Transcript {
  readonly connectorNonce: Uint8Array;
  readonly acceptorNonce: Uint8Array;
  /** Encoded. */
  readonly hello: Uint8Array;
}

/** HMAC-SHA-256 with the job's secret, over the role and all that was said. */
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

/** In constant time. */
export function isSameProof(one: Uint8Array, other: Uint8Array): boolean {
  return one.byteLength === other.byteLength && timingSafeEqual(one, other);
}

/** Another key than that of the proofs, for TLS. */
export function pskOf(secret: string): Uint8Array {
  return createHmac('sha256', secret).update('shardwise 1 tls psk').digest();
}

/** Who knows the secret gets in; no certificates. Pre-shared keys of this form end with TLS 1.2. */
export const PSK_TLS = {
  ciphers: 'PSK-AES128-GCM-SHA256',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;
