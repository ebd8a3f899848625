/** Who knows the secret gets in; no certificates. Pre-shared keys of this form end with TLS 1.2. */
export const PSK_TLS = {
  ciphers: 'PSK-AES128-GCM-SHA256',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;
