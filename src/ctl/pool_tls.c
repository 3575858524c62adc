/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "ctl/pool_tls.h"

#ifndef HAVE_HIREDIS_SSL

int pool_tls_prepare(const struct pool_setup *s, struct error *err)
{
	return error_set(err, "%s: this ratefs-pool was built without TLS (needs hiredis 1.0)",
			 s->server);
}

int pool_tls_begin(redisContext *c, const char *host, struct error *err)
{
	return error_set(err, "built without TLS");
}

#else

#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static SSL_CTX *context;

static const char *why(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;
	return text ? text : "unknown error";
}

static int failed(const char *option, const char *path, struct error *err)
{
	error_set(err, "%s: %s: %s", option, path, why());
	ERR_clear_error();
	return -1;
}

static int load(SSL_CTX *c, const struct pool_setup *s, struct error *err)
{
	const char *key = *s->tls_key ? s->tls_key : s->tls_cert;
	if (*s->tls_ca && SSL_CTX_load_verify_locations(c, s->tls_ca, NULL) != 1)
		return failed("tls_ca", s->tls_ca, err);
	if (!*s->tls_ca && SSL_CTX_set_default_verify_paths(c) != 1)
		return failed("TLS", "the system's certificates", err);
	if (!*s->tls_cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(c, s->tls_cert) != 1)
		return failed("tls_cert", s->tls_cert, err);
	if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(c) != 1)
		return failed("tls_key", key, err);
	return 0;
}

int pool_tls_prepare(const struct pool_setup *s, struct error *err)
{
	redisInitOpenSSL();
	context = SSL_CTX_new(TLS_client_method());
	if (!context)
		return error_set(err, "TLS: %s", why());
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	return load(context, s, err);
}

/* The certificate must name the host, or have its address. */
static bool expect(SSL *ssl, const char *host)
{
	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
		return true;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

int pool_tls_begin(redisContext *c, const char *host, struct error *err)
{
	SSL *ssl = SSL_new(context);
	ERR_clear_error();
	if (!ssl || !expect(ssl, host)) {
		SSL_free(ssl);
		return error_set(err, "TLS: %s", why());
	}
	if (redisInitiateSSL(c, ssl) == REDIS_OK) /* c owns ssl from now on */
		return 0;
	long verified = SSL_get_verify_result(ssl);
	const char *text = verified != X509_V_OK ? X509_verify_cert_error_string(verified)
			   : c->errstr[0]	 ? c->errstr
						 : why();
	error_set(err, "TLS: %s", text);
	SSL_free(ssl);
	return -1;
}

#endif
